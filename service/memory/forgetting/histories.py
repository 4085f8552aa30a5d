"""A run loop's history, and which of its events hold the words of which iteration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from service.domain.history.events import (
    CompactionFinished,
    CompactionStarted,
    Event,
    IterationStarted,
    MemoryRecalled,
    MessageMoved,
    MessageReceived,
    RouteDecided,
    RunLoopIdle,
    RunLoopImported,
    RunLoopInterrupted,
    RunLoopResumed,
    RunLoopStarted,
    Usage,
)
from service.domain.history.fold import begin, evolve
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.imported import conversation
from service.domain.history.state import RunLoopState

_OF_NO_ITERATION = (
    RunLoopStarted,
    RunLoopImported,
    RunLoopResumed,
    RunLoopIdle,
    RunLoopInterrupted,
    MessageMoved,
    Usage,
)


@dataclass(slots=True)
class History:
    """The events of one loop, and where they belong."""

    events: list[Event]
    state: RunLoopState
    iteration_of: dict[int, int] = field(default_factory=dict)
    """By an event's number: the iteration whose words it holds."""
    summarised: dict[int, frozenset[int]] = field(default_factory=dict)
    """By the number of a ``compaction.finished``: the iterations that its summary was made of."""
    forgotten: frozenset[int] = frozenset()
    """Iterations that were forgotten before."""
    message_ids: dict[int, str] = field(default_factory=dict)
    """By the number of a ``message.received``, or of an answer heard as one: the message's id."""
    answer_ids: dict[int, str] = field(default_factory=dict)
    """By the number of a ``message.received`` that no iteration observed, as it was taken for the
    answer to what one had asked: the message's id."""
    moved_unseen: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By the number of a ``message.moved``: events of messages that no iteration had observed; and,
    of one that had been taken for an answer, what followed from it in the iteration that had asked.
    They are of no iteration any more."""
    reopened: dict[int, int] = field(default_factory=dict)
    """By the number of a ``message.moved`` that took an answer back: which iteration had asked."""
    shown: tuple[frozenset[int], ...] = ()
    """For each message that the model is shown: the iterations whose words it holds."""

    @property
    def iteration_count(self) -> int:
        """How many iterations there are; words that none has observed yet are one more."""
        return len(self.state.run_loop().iterations)

    def message_id(self, seq: int) -> str | None:
        """Of the message that came by an event, if one did."""
        return self.message_ids.get(seq) or self.answer_ids.get(seq)

    def taken_back(self, asking: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
        """What had followed from answers to these iterations, and was taken back: nobody sees it
        any more, but here it stands.

        Returns:
            Whole iterations, and numbers of events that are of none.
        """
        askers, iterations, seqs = frozenset(asking), set[int](), set[int]()
        for event in self.events:
            if isinstance(event.body, MessageMoved) and (
                self.reopened.get(event.seq or 0) in askers
            ):
                iterations.update(range(*event.body.iterations))
                seqs.update(self.moved_unseen[event.seq or 0])
        return frozenset(iterations), frozenset(seqs)

    def followed_elsewhere(self, received: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
        """What had followed from messages that were moved away to be answered anew: here it stands,
        and nowhere else.

        Args:
            received: the numbers of the events by which they had come.

        Returns:
            Whole iterations, and numbers of events that are of none.
        """
        received_at = {
            message_id: seq for seq in sorted(received) if (message_id := self.message_id(seq))
        }
        iterations, seqs, before = set[int](), set[int](), set[int]()
        for event in self.events:
            if isinstance(moved := event.body, MessageMoved):
                seq = event.seq or 0
                is_theirs = any(received_at.get(each, seq) < seq for each in moved.message_ids)
                if is_theirs and moved.to_iteration is None:
                    iterations.update({*range(*moved.iterations)} - before)
                    seqs.update(self.moved_unseen.get(seq, ()))
                before.update(range(*moved.iterations))
        return frozenset(iterations), frozenset(seqs)

    def first_seq(self, iterations: Iterable[int]) -> int:
        """The number of the first event that holds words of these iterations."""
        chosen = frozenset(iterations)
        first = self.events[0].seq or 0
        return min((seq for seq, at in self.iteration_of.items() if at in chosen), default=first)


def history_of(events: Sequence[Event]) -> History:
    """Read the events of one loop, in order.

    Raises:
        ValueError: they are not the history of a loop.
    """
    return _Reading(events).history


class _Reading:
    """Goes through a history once, beside the fold."""

    def __init__(self, events: Sequence[Event]) -> None:
        if not events:
            raise ValueError("the run loop has no events")
        self._current = -1
        self._waiting: dict[str, list[int]] = {}
        """Events of the messages that no iteration has observed yet, by the message's id."""
        self._recalled: list[int] = []
        self._makers: list[frozenset[int]] = []
        """For each message that the model is shown: the iterations whose words it holds."""
        forgotten = set[int]()
        state = begin(events[0])
        self.history = History(list(events), state)
        self._import(events[0], forgotten)
        for event in events[1:]:
            state = evolve(state, event)
            self._place(event, state)
            self._watch_messages(event, state)
            self._import(event, forgotten)
            if isinstance(event.body, IterationStarted) and event.body.forgotten:
                forgotten.add(self._current)
        for seqs in (*self._waiting.values(), self._recalled):
            self._assign(seqs, state.iteration_count)
        self.history.state = state
        self.history.shown = tuple(self._makers)
        self.history.forgotten = frozenset(forgotten)

    def _import(self, event: Event, forgotten: set[int]) -> None:
        """What comes in whole is all that there is; its words stand in that one event."""
        if isinstance(event.body, RunLoopImported):
            iterations = event.body.run_loop.iterations
            self._current = len(iterations) - 1
            self._makers = [
                frozenset((index,))
                for index, each in enumerate(iterations)
                for _ in conversation((each,))
            ]
            forgotten.update(index for index, each in enumerate(iterations) if each.forgotten)

    def _assign(self, seqs: Iterable[int], iteration: int) -> None:
        self.history.iteration_of.update(dict.fromkeys(seqs, iteration))

    def _place(self, event: Event, state: RunLoopState) -> None:
        seq = event.seq or 0
        match event.body:
            case MessageReceived(message_id=message_id):
                self._waiting.setdefault(message_id, []).append(seq)
                self.history.message_ids[seq] = message_id
            case RouteDecided(message_id=message_id):
                self._waiting.get(message_id, self._recalled).append(seq)
            case MemoryRecalled():
                self._recalled.append(seq)
            case InputReceived(request_id=request_id, message_id=message_id) if (
                state.unseen and state.unseen[-1].id in (request_id, message_id)
            ):
                # Heard as a message: as one of its own, or as the one that it came with.
                self._waiting.setdefault(message_id or request_id, []).append(seq)
                if message_id is None:
                    self.history.message_ids[seq] = request_id
            case (
                InputReceived(message_id=str(message_id))
                | InputRequired(message_id=str(message_id))
            ):
                # A message that was the answer, or was asked back about, is of that iteration.
                mine = (*self._waiting.pop(message_id, ()), seq)
                self._assign(mine, max(self._current, 0))
                for each in mine:
                    if self.history.message_ids.pop(each, None) is not None:
                        self.history.answer_ids[each] = message_id
            case MessageMoved(message_ids=message_ids) as moved:
                gone = [self._waiting.pop(each, []) for each in message_ids]
                if moved.reopens:
                    self._current = len(state.closed_iterations)
                    gone.append(self._followed(message_ids))
                    self.history.reopened[seq] = self._current
                self.history.moved_unseen[seq] = tuple(number for seqs in gone for number in seqs)
            case IterationStarted():
                self._current = len(state.closed_iterations)
                still_waiting = {unseen.id for unseen in state.unseen}
                for message_id in [each for each in self._waiting if each not in still_waiting]:
                    self._assign(self._waiting.pop(message_id), self._current)
                self._assign((*self._recalled, seq), self._current)
                self._recalled = []
            case CompactionStarted() | CompactionFinished():
                pass
            case body if not isinstance(body, _OF_NO_ITERATION):
                self._assign((seq,), max(self._current, 0))

    def _followed(self, message_ids: Iterable[str]) -> list[int]:
        """What followed from an answer that is taken back, in the iteration that had asked."""
        history = self.history
        first = max(seq for seq, each in history.answer_ids.items() if each in message_ids)
        seqs = [
            seq for seq, at in history.iteration_of.items() if at == self._current and seq >= first
        ]
        for seq in seqs:
            del history.iteration_of[seq]
        return sorted(seqs)

    def _watch_messages(self, event: Event, state: RunLoopState) -> None:
        body = event.body
        if isinstance(body, CompactionFinished):
            gone = self._makers[: body.messages]
            of = frozenset[int]().union(*gone)
            self.history.summarised[event.seq or 0] = of
            self._makers = [of] * len(body.replacement) + self._makers[body.messages :]
        elif isinstance(body, MessageMoved):
            del self._makers[slice(*body.history)]
        new = len(state.history) - len(self._makers)
        if new < 0:
            del self._makers[new:]
        else:
            self._makers += [frozenset((self._current,))] * new
