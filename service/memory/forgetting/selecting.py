"""From what an owner names to whole run loops and single iterations."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import anyio
import anyio.to_thread

from service.domain.anchors import AnchorRef
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.run_loops import ACTIVE, Iteration, RunLoop
from service.memory.forgetting.histories import History, history_of
from service.memory.forgetting.pieces import results_of_others
from service.memory.forgetting.plan import Selection
from service.memory.forgetting.words import strings_in
from service.memory.journal.protocol import Journal
from service.memory.ledger.segmenter import segments_of
from service.memory.protocol import MemoryReader, SearchFilters
from service.storage.clock import millis_of


async def select(
    journal: Journal, memory: MemoryReader, request: ForgetRequest, *, owner: str
) -> Selection:
    """What a request comes to.

    A run loop of which every iteration is named goes whole.

    Raises:
        InvalidInputError: nothing is named, or what is named contradicts itself.
        NotFoundError: the owner has no such run loop, or nothing stands at an anchor.
    """
    _check(request)
    hits: list[tuple[str, int]] = []
    if request.query is not None and not request.exact:
        result = await memory.search(
            request.query,
            owner=owner,
            limit=request.limit,
            filters=SearchFilters(since=request.since, until=request.until),
        )
        for hit in result.hits:
            hits += [each.ref[:2] for each in (hit.anchor, *hit.duplicates)]
    selected = await anyio.to_thread.run_sync(
        lambda: _Selecting(journal, owner, request).selection(hits)
    )
    return replace(
        selected,
        with_answers=request.with_answers or request.with_all_that_saw,
        with_all_that_saw=request.with_all_that_saw,
    )


def _check(request: ForgetRequest) -> None:
    if request.is_empty:
        raise InvalidInputError(
            "nothing is named that is to be forgotten",
            advice="Name run loops, anchors, a query or a time, or say that it is everything.",
        )
    if request.query is not None and not request.query.strip():
        raise InvalidInputError("the query is empty", advice="Say what is to be forgotten.")
    if request.exact and request.query is None:
        raise InvalidInputError("`exact` belongs to a query", advice="Give the words, too.")
    others = request.run_loop_ids or request.anchors or request.query
    if request.everything and (others or request.since or request.until):
        raise InvalidInputError(
            "`everything` goes with no run loop, anchor, query or time",
            advice="Name what is to go, or everything.",
        )
    if request.since and request.until and request.since >= request.until:
        raise InvalidInputError("the time ends before it begins", advice="Look at both ends.")
    if not 1 <= request.limit <= 100:
        raise InvalidInputError("limit is from 1 to 100", advice="Name more with `exact`.")


class _Selecting:
    """Reads the journal, not long-term memory: that may lag behind. Blocks."""

    def __init__(self, journal: Journal, owner: str, request: ForgetRequest) -> None:
        self._journal = journal
        self._owner = owner
        self._request = request
        self._whole: set[str] = set()
        self._single: defaultdict[str, set[int]] = defaultdict(set)

    def selection(self, hits: Iterable[tuple[str, int]]) -> Selection:
        request = self._request
        if request.everything:
            rows = self._journal.histories.ids(self._owner)
            return Selection(frozenset(rows), everything=True)
        for run_loop_id in request.run_loop_ids:
            self._check_owner(run_loop_id)
            if request.since or request.until:
                self._take_time(run_loop_id)
            else:
                self._whole.add(run_loop_id)
        for ref in request.anchors:
            self._check_owner(ref.run_loop_id)
            if not self._stands(ref):
                raise NotFoundError(f"nothing stands at {ref}", advice=self._advice(ref))
            if self._is_of_the_time(self._loop(ref.run_loop_id)[ref.iteration_index]):
                self._single[ref.run_loop_id].add(ref.iteration_index)
        for run_loop_id, iteration in hits:
            if self._journal.histories.owner_of(run_loop_id) == self._owner:
                self._single[run_loop_id].add(iteration)
        if request.exact and request.query is not None:
            self._take_exact(request.query)
        if not (request.run_loop_ids or request.anchors or request.query):
            for run_loop_id in self._journal.histories.ids(
                self._owner, since=request.since, until=request.until
            ):
                self._take_time(run_loop_id)
        return self._settled()

    def _check_owner(self, run_loop_id: str) -> None:
        if self._journal.histories.owner_of(run_loop_id) != self._owner:
            raise NotFoundError(
                f"there is no run loop {run_loop_id}", advice="`rondo loops list` shows all."
            )

    def _stands(self, ref: AnchorRef) -> bool:
        """Whether there is, or was before it was forgotten, something at an anchor."""
        run_loop = self._read(ref.run_loop_id)
        if ref.iteration_index >= len(run_loop.iterations):
            return False
        segments = segments_of(run_loop, ref.iteration_index)
        was_forgotten = run_loop.iterations[ref.iteration_index].forgotten
        return bool(was_forgotten) or ref.segment_index < len(segments)

    def _advice(self, ref: AnchorRef) -> str:
        there = self._loop(ref.run_loop_id)[ref.iteration_index : ref.iteration_index + 1]
        moved_to = there[0].moved_to if there else None
        if moved_to is not None:
            return f"It was moved to run loop {moved_to}: name it there."
        return "Copy an anchor from a memory search."

    def _loop(self, run_loop_id: str) -> tuple[Iteration, ...]:
        return self._read(run_loop_id).iterations

    def _read(self, run_loop_id: str) -> RunLoop:
        return history_of(self._journal.read_blocking(run_loop_id=run_loop_id)).state.run_loop()

    def _take_time(self, run_loop_id: str) -> None:
        run_loop = self._read(run_loop_id)
        for index, iteration in enumerate(run_loop.iterations):
            if self._is_of_the_time(iteration):
                self._single[run_loop_id].add(index)
        if not run_loop.iterations and _within(run_loop.created_at, self._request):
            self._whole.add(run_loop_id)

    def _is_of_the_time(self, iteration: Iteration) -> bool:
        return _within(iteration.timestamp, self._request)

    def _take_exact(self, words: str) -> None:
        for run_loop_id in self._journal.histories.holding(self._owner, written_forms(words)):
            history = history_of(self._journal.read_blocking(run_loop_id=run_loop_id))
            run_loop = history.state.run_loop()
            needle = words.casefold()
            named = {place for place, text in _asked(history) if needle in text.casefold()}
            if needle in run_loop.goal.casefold():
                named.add(0)  # it goes with the first iteration
                if not run_loop.iterations and _within(run_loop.created_at, self._request):
                    self._whole.add(run_loop_id)
            for index, iteration in enumerate(run_loop.iterations):
                if self._is_of_the_time(iteration) and (index in named or holds(iteration, words)):
                    self._single[run_loop_id].add(index)

    def _settled(self) -> Selection:
        single: dict[str, frozenset[int]] = {}
        for run_loop_id, named in self._single.items():
            if run_loop_id in self._whole:
                continue
            run_loop = self._read(run_loop_id)
            old = {
                index
                for index, each in enumerate(run_loop.iterations)
                if each.forgotten or each.moved_to is not None
            }
            new = {index for index in named if index < len(run_loop.iterations)} - old
            if new and len(new | old) == len(run_loop.iterations) and run_loop.status not in ACTIVE:
                self._whole.add(run_loop_id)
            elif new:
                single[run_loop_id] = frozenset(new)
        return Selection(frozenset(self._whole), single)


def written_forms(words: str) -> list[str]:
    """How words may stand in the JSON of an event: in a text, or in JSON within it."""
    once = json.dumps(words, ensure_ascii=False)[1:-1]
    twice = json.dumps(once, ensure_ascii=False)[1:-1]
    escaped = json.dumps(json.dumps(words)[1:-1])[1:-1]
    return list(dict.fromkeys((once, twice, escaped)))


def holds(iteration: Iteration, words: str) -> bool:
    """Whether an iteration holds these words, but for what memory gave it; capitals aside."""
    needle = words.casefold()
    texts = [iteration.user_message, iteration.reasoning, iteration.response]
    for call in iteration.tool_calls:
        texts += (f"{call.name} {call.arguments}", *strings_in(_parsed(call.arguments)))
    texts += (result.content for result in results_of_others(iteration))
    texts += strings_in(iteration.metadata)
    return any(needle in text.casefold() for text in texts if text)


def _asked(history: History) -> Iterator[tuple[int, str]]:
    """What a person was asked and has answered, each with its iteration."""
    for event in history.events:
        place = history.iteration_of.get(event.seq or 0)
        if place is None:
            continue
        match event.body:
            case InputRequired(prompt=prompt, options=options) as asked:
                shown = asked.previews.values()
                texts = (prompt, *options, *shown, *strings_in(asked.metadata))
            case InputReceived(text=text, choices=choices, decisions=decisions):
                texts = (text or "", *choices, *(each.reason or "" for each in decisions))
            case _:
                continue
        yield from ((place, text) for text in texts)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _within(at: datetime, request: ForgetRequest) -> bool:
    if request.since is not None and millis_of(at) < millis_of(request.since):
        return False
    return request.until is None or millis_of(at) < millis_of(request.until)
