"""``POST /v1/send``: the one door for messages.

The sender of a message that is taken apart is told where each part went.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import JsonValue, TypeAdapter

from service.domain.errors import NotFoundError, Problem
from service.domain.history.events import Event
from service.domain.history.outcome import MessageOutcome
from service.domain.history.own_part import OwnPart, is_last
from service.domain.routes import alternatives_of
from service.domain.run_loops import Timestamp
from service.server.daemon import StoppingError, TheDaemon
from service.server.event_streams import (
    EventStream,
    accepts_stream,
    event_frame,
    frame,
    run_until_disconnect,
)
from service.server.http.request_body import JSONRoute
from service.server.problems import RequestError, problem_response
from service.server.security.bearer_auth import Owner
from service.wire.daemon_bodies import ProblemDetails
from service.wire.send_bodies import (
    ACCEPTED,
    DELIVERED,
    Accepted,
    Part,
    Remembered,
    SendRequest,
    Sent,
)

if TYPE_CHECKING:
    from service.agent.agent import Agent
    from service.memory.journal.inbox import Receipt

_MOMENT = TypeAdapter[datetime](Timestamp)
router = APIRouter(prefix="/v1", tags=["send"], route_class=JSONRoute)
MESSAGE_ID = "Rondo-Message-Id"
RUN_LOOP_ID = "Rondo-Run-Loop-Id"


@router.post(
    "/send",
    response_model=Sent,
    responses={
        200: {
            "description": "The answer; or with `Accept: text/event-stream` the events, "
            "`message.accepted` first: from then on nothing can lose the message",
            "content": {"text/event-stream": {}},
        },
        502: {"model": ProblemDetails, "description": "The run loop failed; says which and why"},
    },
)
async def send(
    body: SendRequest,
    request: Request,
    daemon: TheDaemon,
    owner: Owner,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            description="The same key and body give the same run again; another body is refused.",
        ),
    ] = None,
) -> Response:
    """Send a message. A client that goes away cancels nothing."""
    if len(set(request.headers.getlist("idempotency-key"))) > 1:
        raise RequestError(
            400,
            "several-idempotency-keys",
            title="There are several different Idempotency-Key headers",
            advice="Send one: the same key means the same message.",
        )
    agent = await daemon.agent()
    with ExitStack() as held:
        # The place is taken before the message is: no piece of its answer is missed.
        reader = held.enter_context(agent.reader(owner=owner))
        receipt = await agent.accept(
            body.content(),
            run_loop_id=body.run_loop_id,
            mode=body.mode,
            owner=owner,
            metadata=dict(body.metadata),
            model=body.model,
            files=body.files(),
            idempotency_key=idempotency_key,
            request_hash=body.digest(),
        )
        events = agent.follow(receipt.message_id, reader=reader)
        if accepts_stream(request.headers):
            return EventStream(
                _frames(agent, receipt, events, owner),
                closing=daemon.closing,
                heartbeat_seconds=daemon.settings.server.heartbeat_seconds,
                headers=await _headers(agent, receipt),
                on_end=held.pop_all().close,
            )
        outcome = MessageOutcome(OwnPart(receipt.message_id))
        parts: list[Part] = []

        async def gather() -> None:
            await _gather(events, outcome)
            parts.extend(await _delivered_parts(agent, receipt.parts, owner))

        ending = await run_until_disconnect(gather, receive=request.receive, closing=daemon.closing)
    if ending == "client_gone":
        return Response(status_code=204)  # nobody reads it
    return await _answer(agent, outcome, owner, tuple(parts))


async def _frames(
    agent: Agent, receipt: Receipt, events: AsyncGenerator[Event, None], owner: str
) -> AsyncGenerator[bytes, None]:
    accepted = Accepted(message_id=receipt.message_id, replayed=receipt.replayed)
    yield frame(ACCEPTED, accepted.model_dump())
    following = _frames_with_parts(agent, events, receipt.parts, owner)
    async with aclosing(following) as frames:
        async for chunk in frames:
            yield chunk


async def _headers(agent: Agent, receipt: Receipt) -> dict[str, str]:
    headers = {MESSAGE_ID: receipt.message_id}
    if receipt.replayed:
        delivery = await agent.memory.journal.inbox.delivery(receipt.message_id)
        if delivery is not None:
            headers |= _loop_header(delivery.run_loop_id)
    return headers


def _loop_header(run_loop_id: str) -> dict[str, str]:
    """Imported loops may have ids that no header can hold: these are in the body only."""
    return {RUN_LOOP_ID: run_loop_id} if run_loop_id.isascii() and run_loop_id.isprintable() else {}


async def _gather(events: AsyncGenerator[Event, None], outcome: MessageOutcome) -> None:
    """Take all events, up to the one that shows that the message has had its answer."""
    async with aclosing(events):
        async for event in events:
            outcome.add(event.body, run_loop_id=event.run_loop_id, seq=event.seq)
            if outcome.over:
                return


def _cancelled(reason: str) -> Problem:
    return Problem(
        kind="conflict",
        title="The run loop was cancelled before it had answered",
        detail=reason,
        advice="Resume it, or send a message with its id: it goes on where it stopped.",
    )


async def _answer(
    agent: Agent, outcome: MessageOutcome, owner: str, parts: tuple[Part, ...]
) -> Response:
    headers = {MESSAGE_ID: outcome.message_id}
    run_loop_id = outcome.run_loop_id or None
    if run_loop_id is not None:
        headers |= _loop_header(run_loop_id)
    problem = outcome.problem
    if problem is None and outcome.cancelled is not None:
        problem = _cancelled(outcome.cancelled)
    if problem is not None:
        advice = problem.advice or "Resume the run loop to try again."
        return problem_response(
            problem.model_copy(update={"advice": advice}),
            status=502 if outcome.status == "failed" else None,
            headers=headers,
            message_id=outcome.message_id,
            run_loop_id=run_loop_id,
        )
    if outcome.status is None or run_loop_id is None:
        stopping = StoppingError(
            "the message is safe, and is worked on after the next start",
            advice="Ask again then with the same Idempotency-Key, or look at the run loop.",
        )
        return problem_response(
            stopping.problem(),
            headers=headers,
            message_id=outcome.message_id,
            run_loop_id=run_loop_id,
        )
    run_loop = await agent.run_loop(run_loop_id, owner=owner)
    alternatives = () if outcome.route is None else alternatives_of(outcome.route)
    if alternatives:
        possible = await agent.possible_moves(
            run_loop_id,
            outcome.message_id,
            [each.run_loop_id for each in alternatives],
            owner=owner,
        )
        alternatives = tuple(each for each in alternatives if each.run_loop_id in possible)
    sent = Sent(
        message_id=outcome.message_id,
        run_loop_id=run_loop_id,
        status=outcome.status,
        response=outcome.response or None,
        finish_reason=outcome.spoken.finish_reason,
        interrupted_by=outcome.part.interrupted_by if outcome.part else None,
        iterations=run_loop.iterations[outcome.iterations.start : outcome.iterations.stop],
        route=outcome.route,
        alternatives=alternatives,
        input_required=outcome.request,
        warnings=outcome.warnings,
        remembered=tuple(map(Remembered.of, outcome.remembered)),
        parts=parts,
    )
    return Response(sent.model_dump_json(), headers=headers, media_type="application/json")


async def _delivered_parts(
    agent: Agent, message_ids: Sequence[str], owner: str
) -> tuple[Part, ...]:
    """Where these messages went; waits until that is decided."""
    return tuple([await _part_delivered(agent, message_id, owner) for message_id in message_ids])


async def _part_delivered(agent: Agent, message_id: str, owner: str) -> Part:
    nowhere = Part(message_id=message_id, run_loop_id=None, goal="")
    try:
        delivery = await agent.delivery(message_id)
        if isinstance(delivery, Problem):
            return nowhere
        run_loop = await agent.run_loop(delivery.run_loop_id, owner=owner)
    except NotFoundError:
        return nowhere  # it was forgotten meanwhile
    return Part(
        message_id=message_id,
        run_loop_id=run_loop.id,
        goal=run_loop.goal,
        waits_for_input=run_loop.status == "waiting_for_human_input",
    )


async def _frames_with_parts(
    agent: Agent, events: AsyncGenerator[Event, None], message_ids: Sequence[str], owner: str
) -> AsyncGenerator[bytes, None]:
    """Events as frames; before the last one, a frame for each of these messages."""
    parts_sent = False
    async with aclosing(events):
        async for event in events:
            if not parts_sent and is_last(event):
                parts_sent = True
                for part in await _delivered_parts(agent, message_ids, owner):
                    yield _part_frame(part)
            yield event_frame(event)


def _part_frame(part: Part) -> bytes:
    """In the form of an event, of the loop that the part went to."""
    data = part.model_dump(mode="json", exclude={"run_loop_id"})
    wire: JsonValue = {
        "seq": None,
        "type": DELIVERED,
        "at": _MOMENT.dump_python(datetime.now(UTC), mode="json"),
        "run_loop_id": part.run_loop_id or "",
        "data": data,
    }
    return frame(DELIVERED, wire)
