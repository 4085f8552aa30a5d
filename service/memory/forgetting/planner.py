"""Makes the plan: follows words from where they were said to where copies of them stand.

Copies are what demonstrably came from there: the events that a fork began with; pieces that memory
put before a model, or gave to its tools, with their anchors; from then on, in such a run loop,
stretches that are the same to the letter; long texts that were said elsewhere just so; summaries of
the same run loop that were made of them. What only speaks of the same matter is left as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from service.domain.anchors import AnchorRef
from service.domain.errors import BadAnchorError
from service.domain.events import (
    CompactionFinished,
    Event,
    EventBody,
    InputReceived,
    MemoryRecalled,
    MessageReceived,
    RouteDecided,
    RunLoopImported,
    RunLoopStarted,
    ToolFinished,
)
from service.domain.fold import fold
from service.domain.forgetting import FORGOTTEN, CopyKind
from service.domain.run_loops import Iteration
from service.memory.archive.segmenter import split
from service.memory.forgetting.histories import History, history_of
from service.memory.forgetting.journal_reads import unread_state
from service.memory.forgetting.plan import Change, Plan, Selection
from service.memory.forgetting.quotes import Quotes, weight
from service.memory.forgetting.redaction import redacted, redacted_import, reworded
from service.memory.history.journal import Journal
from service.memory.tuned import FORGOTTEN_QUOTE, FORGOTTEN_REPETITION

_ANCHOR = re.compile(r"\[(\S{1,400}?:\d{1,9}\.\d{1,9})\]")
_PAGE = 1000
_FIRST_WORDS = 200
_MOST_ROUNDS = 8

WhereRepeated = Callable[[str, Iterable[str]], Iterable[str]]
"""Gives, for an owner, the run loops that hold segments with these hashes of their texts."""


class _Shown(NamedTuple):
    """An event by which a run loop came to know pieces of memory."""

    run_loop_id: str
    seq: int
    refs: frozenset[tuple[str, int]]
    """Run loop and iteration of each piece."""


@dataclass(slots=True)
class _Doomed:
    """A run loop that stays, and what of it goes."""

    history: History
    bodies: dict[int, EventBody] = field(default_factory=dict)
    iterations: frozenset[int] = frozenset()
    """Those that go whole."""
    altered: set[int] = field(default_factory=set)
    """Those that lose quotes."""
    kinds: set[CopyKind] = field(default_factory=set)
    own: set[int] = field(default_factory=set)
    """Numbers of the events of what was named."""


def make_plan(
    journal: Journal, owner: str, selection: Selection, where_repeated: WhereRepeated
) -> Plan:
    """See what goes, of an owner's selection, and where copies of it stand. Blocks; reads only.

    Raises:
        StorageError: the journal cannot be read.
        ValueError: a history cannot be read.
    """
    return _Planning(journal, owner, selection, where_repeated).plan()


class _Planning:
    def __init__(
        self, journal: Journal, owner: str, selection: Selection, where_repeated: WhereRepeated
    ) -> None:
        self._journal = journal
        self._owner = owner
        self._selection = selection
        self._where_repeated = where_repeated
        self._whole: dict[str, History] = {}
        self._staying: dict[str, _Doomed] = {}
        self._exposed: dict[str, int] = {}
        """Run loops that were shown some of the words, and by which event first."""

    def plan(self) -> Plan:
        found = Plan(self._owner, self._journal.last_seq, self._selection)
        for run_loop_id in sorted(self._selection.run_loop_ids):
            self._whole[run_loop_id] = self._read_whole(run_loop_id)
        for run_loop_id, iterations in sorted(self._selection.iterations.items()):
            self._doom(run_loop_id, iterations, None)
        if not self._selection.everything and not self._selection.is_empty:
            self._follow_forks()
            self._follow_words()
        found.whole = {key: history.state for key, history in self._whole.items()}
        found.events = sum(len(history.events) for history in self._whole.values())
        found.shown = frozenset(self._exposed)
        for run_loop_id, iterations in self._selection.iterations.items():
            told = self._staying[run_loop_id].history.state.run_loop().iterations
            found.single[run_loop_id] = {
                index: first_words(told[index]) for index in sorted(iterations)
            }
        for run_loop_id, doomed in self._staying.items():
            if doomed.bodies:
                found.changes[run_loop_id] = self._change(run_loop_id, doomed)
        return found

    def _read(self, run_loop_id: str) -> History:
        return history_of(self._journal.read_blocking(run_loop_id=run_loop_id))

    def _read_whole(self, run_loop_id: str) -> History:
        """What goes whole need not be read; then copies of it are not known by their words."""
        try:
            return self._read(run_loop_id)
        except ValueError:  # pydantic's errors are of this kind too
            return History([], unread_state(self._journal, run_loop_id))

    def _stays(self, run_loop_id: str) -> _Doomed:
        if run_loop_id not in self._staying:
            self._staying[run_loop_id] = _Doomed(self._read(run_loop_id))
        return self._staying[run_loop_id]

    # --- what was named, and what a fork has of it

    def _doom(self, run_loop_id: str, iterations: frozenset[int], kind: CopyKind | None) -> None:
        """Let iterations of a loop that stays go whole."""
        doomed = self._stays(run_loop_id)
        doomed.iterations |= iterations
        for seq, body in _redactions(doomed.history, doomed.iterations):
            doomed.bodies[seq] = body
            if kind is None:
                doomed.own.add(seq)
        if kind is not None:
            doomed.kinds.add(kind)

    def _follow_forks(self) -> None:
        forks: dict[str, list[tuple[str, int]]] = {}
        for event in self._journal.read_blocking(owner=self._owner, kind="run_loop.started"):
            if isinstance(event.body, RunLoopStarted) and event.body.forked_from is not None:
                point = event.body.forked_from
                forks.setdefault(point.run_loop_id, []).append((event.run_loop_id, point.seq))
        waiting = [*self._whole, *self._staying]
        while waiting:
            parent_id = waiting.pop()
            for fork_id, seq in forks.get(parent_id, ()):
                if fork_id not in self._whole and self._follow_fork(parent_id, fork_id, seq):
                    waiting.append(fork_id)

    def _follow_fork(self, parent_id: str, fork_id: str, last_seq: int) -> bool:
        """Doom what a fork has copied of what goes; whether there is any of it."""
        whole = self._whole.get(parent_id)
        parent = whole or self._staying[parent_id].history
        fork = self._stays(fork_id).history
        gone = frozenset[int]()
        copies = iter(fork.events[1:])
        copy = next(copies, None)
        for event in parent.events:
            if copy is None or (event.seq or 0) > last_seq:
                break
            if copy.body != event.body:
                continue  # of the parent's alone
            if isinstance(event.body, RunLoopImported):
                mine = frozenset(range(len(event.body.run_loop.iterations)))
                gone |= mine if whole else mine & self._staying[parent_id].iterations
            else:
                place = parent.iteration_of.get(event.seq or 0)
                its = fork.iteration_of.get(copy.seq or 0)
                doomed = whole or place in self._staying[parent_id].iterations
                if place is not None and its is not None and doomed:
                    gone |= {its}
            copy = next(copies, None)
        gone -= fork.forgotten | self._staying[fork_id].iterations
        if gone:
            self._doom(fork_id, gone, "fork")
        return bool(gone)

    # --- where else the words have gone

    def _follow_words(self) -> None:
        sources = [text for history, gone in self._gone() for text in _texts(history, gone)]
        for run_loop_id, doomed in self._staying.items():
            if doomed.iterations:
                self._expose(run_loop_id, doomed.history.first_seq(doomed.iterations))
        seen, named = self._scan()
        self._drop_goals(named)
        quotes = Quotes(sources, least=FORGOTTEN_QUOTE)
        for _ in range(_MOST_ROUNDS):
            before = {key: (len(d.bodies), len(d.altered)) for key, d in self._staying.items()}
            self._drop_pieces(seen)
            for run_loop_id, since in self._exposed.items():
                self._drop_quotes(run_loop_id, quotes, "quoted", since=since)
            after = {key: (len(d.bodies), len(d.altered)) for key, d in self._staying.items()}
            if before == after:
                break
        self._drop_repetitions(sources)

    def _gone(self) -> Iterator[tuple[History, frozenset[int]]]:
        for history in self._whole.values():
            yield history, frozenset(range(history.iteration_count))
        for doomed in self._staying.values():
            if doomed.iterations:
                yield doomed.history, doomed.iterations

    def _expose(self, run_loop_id: str, seq: int) -> None:
        self._exposed[run_loop_id] = min(seq, self._exposed.get(run_loop_id, seq))

    def _scan(self) -> tuple[list[_Shown], list[Event]]:
        """The events of loops that stay which hold pieces of memory; and those of the router."""
        seen, named = list[_Shown](), list[Event]()
        for kind in ("memory.recalled", "tool.finished", "route.decided"):
            after = 0
            while page := self._journal.read_blocking(
                owner=self._owner, kind=kind, after=after, limit=_PAGE
            ):
                after = page[-1].seq or 0
                for event in page:
                    if event.run_loop_id in self._whole:
                        continue
                    if isinstance(event.body, RouteDecided):
                        named.append(event)
                    elif refs := pieces_in(event.body):
                        seen.append(_Shown(event.run_loop_id, event.seq or 0, refs))
        return seen, named

    def _drop_goals(self, named: Iterable[Event]) -> None:
        """The router wrote down what the loops that it chose from are about."""
        gone = self._without_opening()
        for event in named:
            body = event.body
            if not isinstance(body, RouteDecided):
                continue
            if any(each.run_loop_id in gone for each in body.route.candidates):
                candidates = tuple(
                    each.model_copy(update={"goal": FORGOTTEN})
                    if each.run_loop_id in gone
                    else each
                    for each in body.route.candidates
                )
                route = body.route.model_copy(update={"candidates": candidates})
                self._put(event, body.model_copy(update={"route": route}), "quoted")

    def _without_opening(self) -> frozenset[str]:
        """The loops whose goal goes."""
        openings = {
            key for key, each in self._staying.items() if each.history.opening in each.iterations
        }
        return frozenset(self._whole) | openings

    def _drop_pieces(self, seen: Iterable[_Shown]) -> None:
        """Drop what memory gave of what goes, and see who was shown what loses quotes."""
        for shown in seen:
            gone = frozenset(ref for ref in shown.refs if self._goes(ref))
            if gone:
                self._expose(shown.run_loop_id, shown.seq)
                doomed = self._stays(shown.run_loop_id)
                event = _event(doomed.history, shown.seq)
                body = doomed.bodies.get(shown.seq, event.body)
                self._put(event, without_pieces(body, gone), "recalled")
            elif any(self._is_altered(ref) for ref in shown.refs):
                self._expose(shown.run_loop_id, shown.seq)

    def _goes(self, ref: tuple[str, int]) -> bool:
        run_loop_id, iteration = ref
        if run_loop_id in self._whole:
            return True
        doomed = self._staying.get(run_loop_id)
        return doomed is not None and iteration in doomed.iterations

    def _is_altered(self, ref: tuple[str, int]) -> bool:
        doomed = self._staying.get(ref[0])
        return doomed is not None and ref[1] in doomed.altered

    def _drop_quotes(
        self,
        run_loop_id: str,
        quotes: Quotes,
        kind: CopyKind,
        *,
        since: int,
        said_too: bool = False,
    ) -> None:
        """Mark what quotes the words; what a person says is theirs, but for `said_too`."""
        doomed = self._stays(run_loop_id)
        for event in doomed.history.events:
            seq = event.seq or 0
            if seq < since or (isinstance(event.body, MessageReceived) and not said_too):
                continue
            body = doomed.bodies.get(seq, event.body)
            self._put(event, reworded(body, lambda text: quotes.without(text, FORGOTTEN)), kind)

    def _drop_repetitions(self, sources: Iterable[str]) -> None:
        long = [
            piece
            for text in sources
            for piece in split(text)
            if weight(piece) >= FORGOTTEN_REPETITION
        ]
        if not long:
            return
        hashes = {hashlib.sha256(piece.encode("utf-8", "replace")).hexdigest() for piece in long}
        places = set(self._where_repeated(self._owner, hashes))
        # What is active may not be in long-term memory yet.
        places |= {state.id for state in self._journal.active(self._owner)}
        quotes = Quotes(long, least=FORGOTTEN_REPETITION)
        for run_loop_id in sorted(places - self._whole.keys()):
            self._drop_quotes(run_loop_id, quotes, "repeated", since=0, said_too=True)

    def _put(self, event: Event, body: EventBody, kind: CopyKind) -> None:
        doomed = self._stays(event.run_loop_id)
        seq = event.seq or 0
        if body == doomed.bodies.get(seq, event.body):
            return
        doomed.bodies[seq] = body
        if seq not in doomed.own:
            doomed.kinds.add(kind)
        place = doomed.history.iteration_of.get(seq)
        if place is not None:
            doomed.altered.add(place)
        elif isinstance(body, RunLoopImported):
            doomed.altered.update(range(len(body.run_loop.iterations)))

    def _change(self, run_loop_id: str, doomed: _Doomed) -> Change:
        history = doomed.history
        events = [
            event.model_copy(update={"body": doomed.bodies[event.seq or 0]})
            if event.seq in doomed.bodies
            else event
            for event in history.events
        ]
        after = fold(events)
        if after is None:
            raise ValueError(f"run loop {run_loop_id} has no events")
        gone = [
            event
            for event in history.events
            if history.iteration_of.get(event.seq or 0) in doomed.iterations
        ]
        return Change(
            before=history.state,
            after=after,
            bodies=doomed.bodies,
            kinds=doomed.kinds,
            message_ids={
                history.message_ids[event.seq or 0]
                for event in gone
                if event.seq in history.message_ids
            },
            approvals={
                scope
                for event in gone
                if isinstance(event.body, InputReceived) and event.body.remember == "always"
                for scope in event.body.scopes
            },
            copies=len(doomed.bodies.keys() - doomed.own),
        )


def first_words(iteration: Iteration) -> str:
    """The beginning of what an iteration holds, for a person to know it by."""
    called = "; ".join(f"{call.name} {call.arguments}" for call in iteration.tool_calls)
    words = iteration.user_message or iteration.response or iteration.reasoning or called
    return clipped(words)


def clipped(words: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(words[: 2 * _FIRST_WORDS].split())
    return line if len(line) <= _FIRST_WORDS else f"{line[:_FIRST_WORDS].rstrip()} …"


def _redactions(history: History, gone: frozenset[int]) -> Iterator[tuple[int, EventBody]]:
    for event in history.events:
        seq, body = event.seq or 0, event.body
        place = history.iteration_of.get(seq)
        if isinstance(body, RunLoopImported):
            yield seq, redacted_import(body, gone)
        elif isinstance(body, RunLoopStarted):
            if history.opening in gone:
                yield seq, redacted(body)
        elif isinstance(body, CompactionFinished):
            if history.summarised[seq] & gone:
                yield seq, redacted(body)
        elif place in gone and (new := redacted(body)) != body:
            yield seq, new


def _texts(history: History, gone: frozenset[int]) -> Iterator[str]:
    """What was said in these iterations, and may have been quoted."""
    for index, iteration in enumerate(history.state.run_loop().iterations):
        if index not in gone:
            continue
        yield from filter(None, (iteration.user_message, iteration.reasoning, iteration.response))
        yield from (call.arguments for call in iteration.tool_calls)
        for result in iteration.tool_results:
            # What memory gave has its place elsewhere, and failures are told in words of the house.
            if not result.is_error and not holds_pieces_of_memory(result.content):
                yield result.content


def holds_pieces_of_memory(content: str) -> bool:
    """Whether a tool's result names anchors, as those of memory's own tools do."""
    return _ANCHOR.search(content) is not None


def pieces_in(body: EventBody) -> frozenset[tuple[str, int]]:
    """Of which run loops' which iterations an event holds pieces that memory gave."""
    if isinstance(body, MemoryRecalled):
        return frozenset(piece.anchor.ref[:2] for piece in body.recollections)
    if not isinstance(body, ToolFinished):
        return frozenset()
    found = set[tuple[str, int]]()
    for match in _ANCHOR.finditer(body.whole or body.content):
        try:
            found.add(AnchorRef.parse(match[1])[:2])
        except BadAnchorError:
            continue
    return frozenset(found)


def without_pieces(body: EventBody, gone: frozenset[tuple[str, int]]) -> EventBody:
    """What memory gave, without these pieces; a tool's result goes whole, as it tells of them."""
    if isinstance(body, MemoryRecalled):
        kept = tuple(each for each in body.recollections if each.anchor.ref[:2] not in gone)
        return body.model_copy(update={"recollections": kept})
    return redacted(body)


def _event(history: History, seq: int) -> Event:
    return next(event for event in history.events if event.seq == seq)
