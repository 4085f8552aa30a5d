"""Undoing a move: which one it was, and where its messages go back to.

A move is told in both of its run loops: by ``message.moved`` in the one that was left, and by the
``route.decided`` of a person in the other. So it can be undone by the id of either. That it was
undone is told in the same two events, so that the same wish again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.agent.moving.moved_rounds import Round
from service.domain.errors import ConflictError
from service.domain.history.events import (
    Event,
    MessageMoved,
    MessageReceived,
    RouteDecided,
    RunLoopStarted,
)
from service.domain.history.human_input import InputReceived


@dataclass(frozen=True, slots=True)
class LastMove:
    """The last move of a message that its run loop tells of."""

    message_ids: tuple[str, ...]
    from_run_loop_id: str
    to_run_loop_id: str
    is_undo: bool
    """Whether it took another one back: then there is nothing left to undo."""


def last_move(events: Sequence[Event], message_id: str | None) -> LastMove:
    """The last move out of a run loop, or into it.

    Args:
        events: of the loop, all of them.
        message_id: of this message; None: of whichever was moved last.

    Raises:
        ConflictError: there was none.
    """
    for event in _own(events):
        move = _move_told_by(event)
        if move is not None and message_id in (None, *move.message_ids):
            return move
    opened = events[0]
    which = "no message was" if message_id is None else f"message {message_id} was not"
    raise ConflictError(
        f"{which} moved out of run loop {opened.run_loop_id} or into it: there is nothing to undo",
        advice="`rondo loops show` tells where each message came from and went to.",
    )


def left_last(events: Sequence[Event]) -> MessageMoved | None:
    """The last move out of a run loop, if nobody has said anything there since.

    Args:
        events: of the loop, all of them.
    """
    for event in _own(events):
        if isinstance(event.body, MessageMoved):
            return event.body
        if isinstance(event.body, MessageReceived | InputReceived):
            return None
    return None


def check_came_alone(gone: Round) -> None:
    """See that only what was moved goes back.

    Raises:
        ConflictError: it was heard together with a message that had come there by itself.
    """
    moved = {
        event.body.message_id
        for event in gone.history.events
        if isinstance(event.body, RouteDecided) and event.body.route.moved_from is not None
    }
    if not moved.issuperset(gone.message_ids):
        raise ConflictError(
            f"run loop {gone.state.id} has heard it together with another message, and answered"
            " both at once",
            advice="Move it as any other message: both go, with their answer.",
        )


def _own(events: Sequence[Event]) -> Iterator[Event]:
    """What happened to a loop itself, newest first; not what came along in a copy, in a fork."""
    opened = events[0]
    is_fork = isinstance(opened.body, RunLoopStarted) and opened.body.forked_from is not None
    for event in reversed(events):
        if is_fork and event.at <= opened.at:
            break
        yield event


def _move_told_by(event: Event) -> LastMove | None:
    match event.body:
        case MessageMoved(message_ids=ids, to_run_loop_id=to, undo=undo):
            return LastMove(ids, event.run_loop_id, to, undo)
        case RouteDecided(message_id=message_id, route=route) if route.moved_from is not None:
            return LastMove((message_id,), route.moved_from, event.run_loop_id, route.undo)
        case _:
            return None
