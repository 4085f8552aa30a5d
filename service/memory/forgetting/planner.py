"""Makes the plan: follows words from where they were said to where copies of them stand.

Copies are what demonstrably came from there: what `Descent` follows; pieces that memory put before
a model, or gave to its tools, with their anchors; from then on, in such a run loop, stretches that
are the same to the letter; long texts that were said elsewhere just so; summaries of the same run
loop that were made of them. What only speaks of the same matter is left as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from service.domain.events import (
    Event,
    EventBody,
    InputReceived,
    InputRequired,
    MessageMoved,
    MessageReceived,
    RouteDecided,
    RunLoopImported,
    RunLoopStarted,
)
from service.domain.fold import fold
from service.domain.forgetting import FORGOTTEN, CopyKind
from service.memory.forgetting.descent import Descent, Doomed
from service.memory.forgetting.histories import History
from service.memory.forgetting.pieces import pieces_in, without_pieces
from service.memory.forgetting.plan import Change, Plan, Selection
from service.memory.forgetting.quotes import Quotes, weight
from service.memory.forgetting.redaction import reworded
from service.memory.forgetting.routes import Goals, without_goals, without_options
from service.memory.forgetting.words import first_words, texts_of
from service.memory.journal.journal import Journal
from service.memory.ledger.segmenter import split
from service.memory.memory_tuning import FORGOTTEN_QUOTE, FORGOTTEN_REPETITION

_OPENINGS = (RunLoopStarted, RunLoopImported)
_PAGE = 1000
_MOST_ROUNDS = 8

WhereRepeated = Callable[[str, Iterable[str]], Iterable[str]]
"""Gives, for an owner, the run loops that hold segments with these hashes of their texts."""


class _Shown(NamedTuple):
    """An event by which a run loop came to know pieces of memory."""

    run_loop_id: str
    seq: int
    refs: frozenset[tuple[str, int]]
    """Run loop and iteration of each piece."""


def make_plan(
    journal: Journal, owner: str, selection: Selection, where_repeated: WhereRepeated
) -> Plan:
    """See what goes, of an owner's selection, and where copies of it stand. Blocks; reads only.

    Raises:
        StorageError: the journal cannot be read.
        ValueError: a history cannot be read.
    """
    return _Planning(journal, owner, selection, where_repeated).plan()


class _Planning(Descent):
    def __init__(
        self, journal: Journal, owner: str, selection: Selection, where_repeated: WhereRepeated
    ) -> None:
        super().__init__(journal, owner)
        self._selection = selection
        self._where_repeated = where_repeated
        self._exposed: dict[str, int] = {}
        """Run loops that were shown some of the words, and by which event first."""

    def plan(self) -> Plan:
        found = Plan(self._owner, self._journal.last_seq, self._selection)
        for run_loop_id in sorted(self._selection.run_loop_ids):
            self._whole[run_loop_id] = self._read_whole(run_loop_id)
        for run_loop_id, iterations in sorted(self._selection.iterations.items()):
            self._doom(run_loop_id, iterations, None)
        if not self._selection.everything and not self._selection.is_empty:
            self._follow_copies()
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

    # --- where else the words have gone

    def _follow_words(self) -> None:
        sources = [text for history, gone in self._gone() for text in texts_of(history, gone)]
        for run_loop_id, doomed in self._staying.items():
            if doomed.iterations:
                self._expose(run_loop_id, doomed.history.first_seq(doomed.iterations))
        seen, named = self._scan()
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
        self._drop_goals(named)

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
        for kind in ("memory.recalled", "tool.finished", "route.decided", "input.required"):
            after = 0
            while page := self._journal.read_blocking(
                owner=self._owner, kind=kind, after=after, limit=_PAGE
            ):
                after = page[-1].seq or 0
                for event in page:
                    if event.run_loop_id in self._whole:
                        continue
                    if _names_goals(event.body):
                        named.append(event)
                    elif refs := pieces_in(event.body):
                        seen.append(_Shown(event.run_loop_id, event.seq or 0, refs))
        return seen, named

    def _drop_goals(self, named: Iterable[Event]) -> None:
        """The router wrote down what the loops that it chose from are about."""
        goals = self._goals_that_go()
        # A short one may have been said elsewhere, too, by chance.
        known = Goals(goal for goal in goals.values() if weight(goal) >= FORGOTTEN_QUOTE)
        for event in named:
            body = self._body(event)
            if isinstance(body, InputRequired):
                self._put(event, without_options(body, goals.keys(), known), "quoted")
            elif isinstance(body, RouteDecided):
                route = without_goals(body.route, goals.keys(), known)
                # A fork's copies name the loop that it came from: its own goal is known by words.
                if event.run_loop_id in goals:
                    route = without_goals(route, (), Goals((goals[event.run_loop_id],)))
                if route != body.route:
                    self._put(event, body.model_copy(update={"route": route}), "quoted")

    def _body(self, event: Event) -> EventBody:
        """An event's body, without what goes of it by now."""
        doomed = self._staying.get(event.run_loop_id)
        return event.body if doomed is None else doomed.bodies.get(event.seq or 0, event.body)

    def _goals_that_go(self) -> dict[str, str]:
        """By their ids: the loops whose goal goes, whole or a quote in it."""
        goals = {key: history.state.goal for key, history in self._whole.items()}
        for key, doomed in self._staying.items():
            goal = doomed.history.state.goal
            opened = any(isinstance(each, _OPENINGS) for each in doomed.bodies.values())
            # Once its first words were moved away, others tell what a loop is about.
            told_by_others = any(
                isinstance(each.body, MessageMoved) and each.body.with_goal
                for each in doomed.history.events
            )
            if (opened or told_by_others) and self._change(key, doomed).after.goal != goal:
                goals[key] = goal
        return goals

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
        places |= {state.id for state in self._journal.states(self._owner)}
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

    def _change(self, run_loop_id: str, doomed: Doomed) -> Change:
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
                message_id
                for event in gone
                if (message_id := history.message_id(event.seq or 0)) is not None
            },
            approvals={
                scope
                for event in gone
                if isinstance(event.body, InputReceived) and event.body.remember == "always"
                for scope in event.body.scopes
            },
            copies=len(doomed.bodies.keys() - doomed.own),
        )


def _names_goals(body: EventBody) -> bool:
    """Whether the router tells here what run loops are about."""
    asks = isinstance(body, InputRequired) and body.about == "route"
    return asks or isinstance(body, RouteDecided)


def _event(history: History, seq: int) -> Event:
    return next(event for event in history.events if event.seq == seq)
