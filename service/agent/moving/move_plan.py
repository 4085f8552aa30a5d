"""What a move writes: to the loop that the message leaves, and to the one that it comes to.

What tools have done for a message cannot be taken back, and is not told as if it had been.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from service.agent.moving import moved_copies
from service.agent.moving.moved_copies import Copy
from service.agent.moving.moved_rounds import Round
from service.domain.errors import ConflictError
from service.domain.history.events import (
    Event,
    EventBody,
    MessageMoved,
    MessageReceived,
    RouteDecided,
    RunLoopCancelled,
    RunLoopIdle,
    RunLoopInterrupted,
    RunLoopResumed,
    RunLoopStarted,
)
from service.domain.history.fold import begin, evolve
from service.domain.history.fold_moves import is_moved_out
from service.domain.history.state import RunLoopState
from service.domain.ids import new_id
from service.domain.run_loops import RESUMABLE
from service.loop.replies import joining
from service.memory.journal.appends import Append
from service.tools.registry import ToolRegistry


def has_side_effects(gone: Round, tools: ToolRegistry) -> bool:
    """Whether a tool that may have changed something has begun since the messages were heard."""
    return bool(_with_side_effects(gone, tools))


def check_can_be_taken_back(gone: Round, tools: ToolRegistry) -> None:
    """See that nothing was done upon an answer that would stay done without it.

    Raises:
        ConflictError: a tool with side effects has begun.
    """
    names = _with_side_effects(gone, tools)
    if names:
        listed = ", ".join(f"`{name}`" for name in names)
        raise ConflictError(
            f"message {gone.message_ids[-1]} was the answer to what run loop {gone.state.id} had"
            f" asked, and {listed} has run upon it since, which cannot be taken back",
            advice="Send the words anew to where they belong; or move the message before, and all"
            " that followed goes with it.",
        )


def _with_side_effects(gone: Round, tools: ToolRegistry) -> list[str]:
    """The names of such tools; one that is offered no more may have had any effect."""
    return [
        name
        for name in sorted(gone.tools_begun)
        if (tool := tools.get(name)) is None or tool.effect not in ("read_only", "idempotent")
    ]


@dataclass(frozen=True, slots=True)
class Plan:
    """The two appends of one move."""

    source: Append
    target: Append


def is_free(target: RunLoopState | None) -> bool:
    """Whether a whole round can be put into a loop now: nothing goes on in it, or waits there."""
    return target is None or not target.is_active or target.status == "idle"


def plan(gone: Round, target: RunLoopState | None, *, read_at: int, undo: bool = False) -> Plan:
    """What is to be written. What was not answered is answered there, and here.

    Args:
        gone: what is moved.
        target: the loop that it joins; it must be free where the round came to something. None, or
            one that is completed: it opens a new one.
        read_at: the `Journal.lost_words_at` when both were read.
        undo: whether a move is undone by that.
    """
    now = datetime.now(UTC)
    joined = target
    if target is not None and not target.is_active and target.status not in RESUMABLE:
        joined = None  # as for a message that is sent with its id
    run_loop_id = new_id() if joined is None else joined.id
    whole = gone.came_to_something
    to_iteration = (0 if joined is None else joined.iteration_count) if whole else None
    moved = MessageMoved(
        message_ids=(*gone.answers, *gone.message_ids),
        to_run_loop_id=run_loop_id,
        iterations=gone.iterations,
        history=gone.shown,
        to_iteration=to_iteration,
        with_goal=gone.with_goal,
        undo=undo,
        reopens=gone.reopens is not None,
    )
    joining = None if joined is None else joined.id
    arriving = list(moved_copies.messages(gone, run_loop_id=joining, now=now, undo=undo))
    if joined is not None and joined.awaiting is not None and not joined.asks_where:
        arriving = _replies(arriving, joined)
    elif to_iteration is not None:
        arriving += moved_copies.what_followed(
            gone, first_index=to_iteration, run_loop_id=run_loop_id
        )
    elif joined is not None and joined.asks_where:
        # As for a message that is sent there: the loop goes on with both.
        arriving.append(Copy(RunLoopInterrupted(message_id=gone.message_ids[-1]), now))
    arriving = [*_opening(arriving, target, joined, now), *arriving]
    owner = gone.state.owner
    arriving = _settled(arriving, run_loop_id, owner, joined, now)
    return Plan(
        _leaving(gone, [moved, *_rest(gone, moved, now)], read_at),
        Append(
            run_loop_id,
            [copy.body for copy in arriving],
            owner=owner if joined is None else None,
            if_last_seq=None if joined is None else joined.last_seq,
            ended=joined if joined is not None and not joined.is_active else None,
            moments=[copy.at for copy in arriving],
            read_at=read_at,
            redelivering=moved.message_ids,
            taking_over={
                place: copy.original
                for place, copy in enumerate(arriving)
                if copy.original is not None
            },
        ),
    )


def _replies(arriving: Sequence[Copy], joined: RunLoopState) -> list[Copy]:
    """Messages that come to a loop that waits, as if they were sent there."""
    copies = list[Copy]()
    state = joined
    for message, decided in zip(arriving[::2], arriving[1::2], strict=True):
        bodies: Sequence[EventBody] = (message.body, decided.body)
        if isinstance(message.body, MessageReceived) and isinstance(decided.body, RouteDecided):
            bodies = joining(decided.body.route, state, message.body, (decided.body,))
        first, *further = bodies
        heard = [
            Copy(first, message.at, message.original),
            *(Copy(each, decided.at) for each in further),
        ]
        copies += heard
        state = _folded(state, joined.id, joined.owner, heard)
    return copies


def _leaving(gone: Round, bodies: Sequence[EventBody], read_at: int) -> Append:
    state = gone.state
    ends = not state.is_active and gone.reopens is None
    if not state.is_active and not ends:
        bodies = [RunLoopResumed(), *bodies]
    return Append(
        state.id,
        bodies,
        if_last_seq=state.last_seq,
        ended=None if state.is_active else state,
        read_at=read_at,
    )


def _opening(
    arriving: Sequence[Copy],
    target: RunLoopState | None,
    joined: RunLoopState | None,
    now: datetime,
) -> list[Copy]:
    """What comes before the messages: a loop that is opened, or taken up again."""
    if joined is None:
        words = (
            copy.body.message.words.strip()
            for copy in arriving
            if isinstance(copy.body, MessageReceived)
        )
        goal = next(filter(None, words), "")
        started = RunLoopStarted(goal=goal, predecessor_id=target.id if target else None)
        return [Copy(started, now)]
    return [] if joined.is_active else [Copy(RunLoopResumed(), now)]


def _settled(
    arriving: list[Copy],
    run_loop_id: str,
    owner: str,
    joined: RunLoopState | None,
    now: datetime,
) -> list[Copy]:
    """With the rest that follows an answer; the last of it happens now, whenever the rest did."""
    state = _folded(joined, run_loop_id, owner, arriving)
    if state.status == "running" and state.is_answered and not state.unseen:
        return [*arriving, Copy(RunLoopIdle(), now)]
    return [*arriving[:-1], arriving[-1]._replace(at=now)]


def _rest(gone: Round, moved: MessageMoved, now: datetime) -> list[EventBody]:
    """What becomes of the loop that the messages leave: it never stays open for nothing."""
    if gone.reopens is not None:
        # Under another id: an answer to the first shall not be taken for one to this.
        return [gone.reopens.model_copy(update={"request_id": new_id()})]
    before = gone.state
    after = _folded(before, before.id, before.owner, [Copy(moved, now)])
    if not after.is_active:
        return []
    if is_moved_out(after):
        reason = f"all of it was moved to run loop {moved.to_run_loop_id}"
        return [RunLoopCancelled(reason=reason)]
    at_rest = after.status == "running" and after.is_answered and not after.unseen
    return [RunLoopIdle()] if gone.is_last and at_rest else []


def _folded(
    state: RunLoopState | None, run_loop_id: str, owner: str, happening: Iterable[Copy]
) -> RunLoopState:
    """The state that some events will lead to."""
    seq = 0 if state is None else state.last_seq
    for copy in happening:
        seq += 1
        event = Event(seq=seq, at=copy.at, owner=owner, run_loop_id=run_loop_id, body=copy.body)
        state = begin(event) if state is None else evolve(state, event)
    if state is None:
        raise ValueError("nothing happens")
    return state
