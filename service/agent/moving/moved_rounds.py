"""What goes when a message is moved: its round.

That is the iterations from the one that observed it up to the next one that observed another
message. Messages that were observed together go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.errors import ConflictError, NotFoundError
from service.domain.history.events import Event, MessageMoved, ToolStarted
from service.domain.history.human_input import InputRequired
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RESUMABLE, Iteration
from service.memory.forgetting.histories import History, history_of


@dataclass(frozen=True, slots=True)
class Round:
    """Messages of a loop, and what followed from them."""

    history: History
    """All of the loop."""
    message_ids: tuple[str, ...]
    iterations: tuple[int, int]
    """From the first to before the last, perhaps with some between them that have gone before; the
    same twice where none has observed the messages."""
    shown: tuple[int, int]
    """Their messages in the conversation that the model sees, likewise."""
    received: tuple[int, ...]
    """The numbers of the events by which the messages came."""
    with_goal: bool
    """Whether these are the words that tell what the loop is about."""
    anew: bool = False
    """Whether only the messages go, to be answered where they come to: what followed from them is
    taken back."""
    reopens: InputRequired | None = None
    """What the message was the answer to, or was asked back about: it is asked again."""

    @property
    def state(self) -> RunLoopState:
        """The loop that they are in."""
        return self.history.state

    @property
    def going(self) -> tuple[int, ...]:
        """The iterations that go."""
        iterations = self.state.iterations
        return tuple(
            index for index in range(*self.iterations) if iterations[index].moved_to is None
        )

    @property
    def answers(self) -> tuple[str, ...]:
        """The messages that were taken for answers to what was asked within what goes."""
        going = frozenset(self.going)
        return tuple(
            message_id
            for seq, message_id in sorted(self.history.answer_ids.items())
            if self.history.iteration_of.get(seq) in going
        )

    @property
    def is_last(self) -> bool:
        """Whether the loop's newest iteration is among them, with all that goes on in it."""
        start, end = self.iterations
        return self.reopens is not None or start < end == self.state.iteration_count

    @property
    def came_to_something(self) -> bool:
        """Whether what the model has said since, or a tool has done, goes along."""
        if self.anew:
            return False
        done = (self.state.iterations[index] for index in self.going)
        return any(each.response or each.reasoning or each.tool_calls for each in done)

    @property
    def tools_begun(self) -> frozenset[str]:
        """The names of the tools that have begun to run since the messages were heard."""
        going, since = frozenset(self.going), max(self.received)
        return frozenset(
            event.body.name
            for event in self.history.events
            if isinstance(event.body, ToolStarted)
            and (event.seq or 0) > since
            and (self.reopens or self.history.iteration_of.get(event.seq or 0) in going)
        )


@dataclass(frozen=True, slots=True)
class WentBefore:
    """The message is not in the loop any more: it was moved before."""

    message_ids: tuple[str, ...]
    to_run_loop_id: str


def round_of(events: Sequence[Event], message_id: str | None) -> Round | WentBefore:
    """The round of a message, or of the newest one; of an answer, what followed from it.

    Args:
        events: of the loop, all of them.
        message_id: None: the message that came last, and was no answer.

    Raises:
        NotFoundError: the loop never had that message.
        ConflictError: there is no message to be moved, or the words of the round were summarised
            together with those of others; or it was an answer, and something was said since.
        ValueError: the events are not the history of a loop.
    """
    history = history_of(events)
    here = _here(history)
    if message_id is None:
        message_id = next(reversed(here.values()), None)
    if message_id is None:
        raise ConflictError(
            f"run loop {history.state.id} holds no message that could be moved",
            advice="All were moved before: `rondo loops show` tells where to."
            if history.message_ids
            else "What came in whole from a file stays as it is.",
        )
    received = [seq for seq, each in here.items() if each == message_id]
    answered = _answered_at(history, message_id)
    if answered is not None:
        return _answer(history, message_id, answered)
    if not received:
        return _went(history, message_id)
    place = history.iteration_of.get(received[-1], history.state.iteration_count)
    if place >= history.state.iteration_count:
        return Round(
            history=history,
            message_ids=(message_id,),
            iterations=(place, place),
            shown=(len(history.shown),) * 2,
            received=(received[-1],),
            with_goal=_goal_place(history) is None and history.state.unseen[0].id == message_id,
        )
    # Once a message was moved away, what went on after it belongs to one before it.
    observed = {history.iteration_of.get(seq) for seq in here}
    later = [index for index in observed if index is not None and index > place]
    end = min((*later, history.state.iteration_count))
    together = {seq: each for seq, each in here.items() if history.iteration_of.get(seq) == place}
    return Round(
        history=history,
        message_ids=tuple(together.values()),
        iterations=(place, end),
        shown=_shown(history, place, end),
        received=tuple(together),
        with_goal=_goal_place(history) == place,
    )


def place_of(events: Sequence[Event], message_id: str) -> WentBefore | None:
    """Where a message went; None: it is here.

    Args:
        events: of the loop, all of them.
        message_id: the message.

    Raises:
        NotFoundError: the loop never had that message.
        ValueError: the events are not the history of a loop.
    """
    history = history_of(events)
    if message_id in _here(history).values() or _answered_at(history, message_id) is not None:
        return None
    return _went(history, message_id)


def all_waiting(events: Sequence[Event]) -> Round:
    """All messages of a loop that no iteration has observed.

    Raises:
        ValueError: the events are not the history of a loop.
    """
    history = history_of(events)
    place = history.state.iteration_count
    here = _here(history)
    waiting = {seq: each for seq, each in here.items() if history.iteration_of.get(seq) == place}
    return Round(
        history=history,
        message_ids=tuple(waiting.values()),
        iterations=(place, place),
        shown=(len(history.shown),) * 2,
        received=tuple(waiting),
        with_goal=_goal_place(history) is None,
    )


def _here(history: History) -> dict[int, str]:
    """The messages that are in the loop now, oldest first, by the numbers of their events."""
    iterations = history.state.iterations
    gone = {seq for seqs in history.moved_unseen.values() for seq in seqs}
    message_ids = dict[int, str]()
    for seq, message_id in sorted(history.message_ids.items()):
        place = history.iteration_of.get(seq)
        moved = seq in gone or (
            place is not None and place < len(iterations) and iterations[place].moved_to is not None
        )
        if not moved:
            message_ids[seq] = message_id
    return message_ids


def _answered_at(history: History, message_id: str) -> int | None:
    """The event by which a message came that is an answer here; None: it is none, or it went."""
    for seq, each in sorted(history.answer_ids.items(), reverse=True):
        place = history.iteration_of.get(seq)
        if each == message_id and place is not None:
            iteration = history.state.iteration_at(place)
            return seq if iteration is not None and iteration.moved_to is None else None
    return None


def _answer(history: History, message_id: str, seq: int) -> Round:
    """What goes, and what is taken back, when a message is moved that was taken for an answer."""
    state = history.state
    before = state.before_answer
    asked = before.state.awaiting if before is not None else None
    what = f"message {message_id} was the answer to what run loop {state.id} had asked"
    if before is None or asked is None or before.message_id != message_id:
        raise ConflictError(
            f"{what}, and what was said or summarised there since builds on it",
            advice="Move the newer answer first, where there is one; or move the message before,"
            " and the answer goes with it; or send its words anew to where they belong.",
        )
    if not state.is_active and state.status not in RESUMABLE:
        raise ConflictError(
            f"{what}, which is {state.status}: it cannot ask again",
            advice="Send the words anew to where they belong; or move the message before, and the"
            " answer goes with it.",
        )
    shown = len(before.state.history)
    return Round(
        history=history,
        message_ids=(message_id,),
        iterations=(before.state.iteration_count, state.iteration_count),
        shown=(shown, max(shown, len(state.history))),
        received=(seq,),
        with_goal=False,
        anew=True,
        reopens=asked,
    )


def _went(history: History, message_id: str) -> WentBefore:
    for event in reversed(history.events):
        if isinstance(event.body, MessageMoved) and message_id in event.body.message_ids:
            return WentBefore(event.body.message_ids, event.body.to_run_loop_id)
    raise NotFoundError(
        f"run loop {history.state.id} has no message {message_id}",
        advice="`rondo loops show` lists its messages.",
    )


def _goal_place(history: History) -> int | None:
    """The iteration whose words tell what the loop is about: the first that is still here."""
    iterations: Sequence[Iteration] = history.state.iterations
    return next((at for at, each in enumerate(iterations) if each.moved_to is None), None)


def _shown(history: History, start: int, end: int) -> tuple[int, int]:
    """Where the messages of some iterations stand among those that the model sees."""
    mine = frozenset(range(start, end))
    touched = [at for at, of in enumerate(history.shown) if of & mine]
    if any(not history.shown[at] <= mine for at in touched):
        raise ConflictError(
            "the words of this message were summarised together with those of others, to make room"
            " in the model's window",
            advice="Send the words anew to where they belong; or fork the run loop at an event"
            " before the summary, and move the message there.",
        )
    if not touched:
        return (len(history.shown),) * 2
    first, last = touched[0], touched[-1]
    if last - first + 1 != len(touched):
        raise ValueError(f"the iterations {start} to {end} are not shown together")
    return first, last + 1
