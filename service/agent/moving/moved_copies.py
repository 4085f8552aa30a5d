"""The events by which moved messages, and what followed from them, come to their new loop.

They are copies with their times, but for what was for the first loop alone: what it has paid for,
and a person's yes for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from service.agent.moving.moved_rounds import Round
from service.domain.conversation.messages import Message
from service.domain.history.events import (
    Event,
    EventBody,
    IterationAbandoned,
    IterationStarted,
    MemoryRecalled,
    MessageCompleted,
    MessageReceived,
    RouteDecided,
    ToolFinished,
    ToolStarted,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.routes import Route


class Copy(NamedTuple):
    """Something that happened, and when."""

    body: EventBody
    at: datetime
    original: Event | None = None
    """The event of the first loop whose words it takes over."""


def messages(
    gone: Round, *, run_loop_id: str | None, now: datetime, undo: bool = False
) -> Iterator[Copy]:
    """The messages alone, each with the reason why it is where it is now.

    Args:
        gone: what is moved.
        run_loop_id: the loop that it joins; None: it opens one.
        now: when a person moved it.
        undo: whether they took a move back by that.
    """
    for event in gone.history.events:
        if event.seq in gone.received:
            received = _received(event.body, gone.history.message_id(event.seq or 0) or "")
            if run_loop_id is not None and received.mode == "followup":
                # What it was to come after is elsewhere, and a loop that waits hears it at once.
                received = received.model_copy(update={"mode": "steer"})
            yield Copy(received, event.at, event)
            route = _route(gone, received.message_id, run_loop_id, undo=undo)
            yield Copy(RouteDecided(message_id=received.message_id, route=route), now)


def what_followed(gone: Round, *, first_index: int, run_loop_id: str) -> Iterator[Copy]:
    """What the loop did from where it observed the messages.

    Every call that has a result there has the same one here, so that nothing is done twice.

    Args:
        gone: what is moved; observed.
        first_index: which iteration the first one is in its new loop.
        run_loop_id: that loop.
    """
    happened = _by_iteration(gone)
    asked = _requests_to_keep(gone, happened)
    answers = _answers_to_keep(gone, happened, asked)
    for place, index in enumerate(gone.going):
        finished = set[str]()
        for event in happened.get(index, ()):
            body = _answering(event.body, gone, answers, run_loop_id) or _copied(
                event.body, gone, first_index + place, asked, first=place == 0
            )
            if isinstance(body, ToolFinished):
                finished.add(body.call_id)
            if body is not None:
                # Why it came to the first loop is told there alone.
                original = None if isinstance(body, RouteDecided) else event
                yield Copy(body, event.at, original)
        yield from _closed_calls(gone, index, finished)


def _by_iteration(gone: Round) -> dict[int, list[Event]]:
    happened: dict[int, list[Event]] = {}
    for event in gone.history.events:
        index = gone.history.iteration_of.get(event.seq or 0)
        if index is not None:
            happened.setdefault(index, []).append(event)
    return happened


def _received(body: EventBody, message_id: str) -> MessageReceived:
    if isinstance(body, MessageReceived):
        return body
    # Nobody's tool call had asked: what a person answered was what they said next.
    words = ""
    if isinstance(body, InputReceived):
        words = "\n".join(body.choices) if body.choices else body.text or ""
    return MessageReceived(message_id=message_id, message=Message.user(words))


def _route(gone: Round, message_id: str, run_loop_id: str | None, *, undo: bool = False) -> Route:
    """Why the message is there now, and, for whoever learns from it, what was weighed before."""
    before = Route(decision="new", confidence=0, method="fallback", reason="")
    for event in gone.history.events:
        if isinstance(event.body, RouteDecided) and event.body.message_id == message_id:
            before = event.body.route
    return Route(
        decision="new" if run_loop_id is None else "join",
        run_loop_id=run_loop_id,
        confidence=1.0,
        method="person",
        reason="a person took its move back" if undo else "a person moved it here",
        candidates=before.candidates,
        new_probability=before.new_probability,
        moved_from=gone.state.id,
        undo=undo,
    )


def _requests_to_keep(gone: Round, happened: Mapping[int, Sequence[Event]]) -> frozenset[str]:
    """What a person was asked: what they still are, or have answered within what goes."""
    answered = {
        event.body.request_id
        for index in gone.going
        for event in happened.get(index, ())
        if isinstance(event.body, InputReceived) and event.seq not in gone.received
    }
    awaiting = gone.state.awaiting
    if awaiting is not None and gone.is_last:
        answered.add(awaiting.request_id)
    return frozenset(answered)


def _answers_to_keep(
    gone: Round, happened: Mapping[int, Sequence[Event]], asked: frozenset[str]
) -> frozenset[str]:
    """The messages that were taken for answers to these requests, or were asked back about."""
    return frozenset(
        event.body.message_id
        for index in gone.going
        for event in happened.get(index, ())
        if isinstance(event.body, InputReceived | InputRequired)
        and event.body.request_id in asked
        and event.body.message_id in gone.answers
    )


def _copied(
    body: EventBody, gone: Round, index: int, asked: frozenset[str], *, first: bool
) -> EventBody | None:
    match body:
        case IterationStarted(message_ids=ids):
            # Older journals name none: all that had come in by then.
            mine = gone.message_ids if ids is None else ids
            kept = tuple(each for each in mine if each in gone.message_ids)
            return body.model_copy(update={"index": index, "message_ids": kept if first else ()})
        case IterationAbandoned():
            return body.model_copy(update={"index": index})
        case MemoryRecalled(recollections=()):
            return None
        case MemoryRecalled() | MessageCompleted() | ToolStarted() | ToolFinished():
            return body
        case InputRequired(request_id=request_id) if request_id in asked:
            return body
        case InputReceived(request_id=request_id) if request_id in asked:
            # What a person allowed for as long as that loop lasts, they have not allowed here.
            update = {"remember": None, "scopes": (), "rules": (), "narrow": None}
            return body.model_copy(update=update)
    return None


def _answering(
    body: EventBody, gone: Round, answers: frozenset[str], run_loop_id: str
) -> EventBody | None:
    """A message that was an answer, and why it is where it is; None for all else."""
    match body:
        case MessageReceived(message_id=message_id) if message_id in answers:
            return body
        case RouteDecided(message_id=message_id) if message_id in answers:
            return RouteDecided(message_id=message_id, route=_route(gone, message_id, run_loop_id))
    return None


def _closed_calls(gone: Round, index: int, finished: set[str]) -> Iterator[Copy]:
    """Results that calls came to without an event, as the loop was stopped before they ended."""
    iteration = gone.state.iterations[index]
    names = {call.id: call.name for call in iteration.tool_calls}
    for result in iteration.tool_results:
        if result.id not in finished:
            body = ToolFinished(
                call_id=result.id,
                name=names.get(result.id, ""),
                content=result.content,
                is_error=result.is_error,
                notice=result.notice,
                outside=result.outside,
            )
            yield Copy(body, iteration.timestamp)
