"""``POST /v1/send``: the one door for messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from service.domain.errors import Problem
from service.domain.events import Event, InputRequired, Recollection
from service.domain.messages import FinishReason, ImageUrlPart, Message, TextPart
from service.domain.outcome import MessageOutcome
from service.domain.own_part import OwnPart
from service.domain.routes import Route, RouteCandidate, alternatives_of
from service.domain.run_loops import Iteration, SendMode, Status, Timestamp
from service.server.attendance import attend
from service.server.auth import Owner
from service.server.daemon import StoppingError, TheDaemon
from service.server.json_body import JSONRoute
from service.server.parts import Part, delivered, frames_with_parts
from service.server.problems import ProblemDetails, RequestError, problem_response
from service.server.sse import EventStream, accepts_stream, frame

if TYPE_CHECKING:
    from service.agent.agent import Agent
    from service.memory.journal.inbox import Receipt

router = APIRouter(prefix="/v1", tags=["send"], route_class=JSONRoute)

MESSAGE_ID = "Rondo-Message-Id"
RUN_LOOP_ID = "Rondo-Run-Loop-Id"


class TextContent(BaseModel):
    """Words of a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class ImageContent(BaseModel):
    """An image of a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["image_url"]
    url: str
    """``https:``, or ``data:`` with base64."""
    id: str | None = Field(default=None, max_length=255)
    """What the sender calls it; kept with it."""

    @model_validator(mode="before")
    @classmethod
    def _unnested(cls, read: Any) -> Any:
        """OpenAI's form; its ``detail`` has no counterpart elsewhere, and is left to the model."""
        nested = read.get("image_url") if isinstance(read, dict) else None
        if not isinstance(nested, dict):
            return read
        inner = {name: value for name, value in nested.items() if name != "detail"}
        return {name: value for name, value in read.items() if name != "image_url"} | inner


MessagePart = Annotated[TextContent | ImageContent, Field(discriminator="type")]


class SendRequest(BaseModel):
    """A message, and what its sender knows about it."""

    model_config = ConfigDict(extra="forbid")

    message: str | list[MessagePart]
    """The words; or parts, where images go with them: ``{"type": "text", "text": …}`` and
    ``{"type": "image_url", "url": …}``, whose address is ``https:`` or a ``data:`` URL. OpenAI's
    form, ``"image_url": {"url": …}``, is taken too."""
    run_loop_id: str | None = None
    """The loop it belongs to: one that was cancelled or has failed goes on, a completed one is
    taken up by a new one that remembers it. ``new``: it opens a new one, whatever the router would
    say. None: the router decides."""
    mode: SendMode = "steer"
    """How it joins a loop that is at work: ``steer`` (seen at the next step), ``followup`` (seen
    after the answer), ``interrupt`` (the work is stopped, and this is taken instead)."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Kept with the message."""
    model: str | None = None
    """The name of the model that answers it, and what follows it in its run loop until a message
    names another one: ``default``, or one of the setting `models`. None: the run loop's."""

    def content(self) -> Message:
        """The message that is sent."""
        if isinstance(self.message, str):
            return Message.user(self.message)
        parts = (
            TextPart(text=part.text)
            if isinstance(part, TextContent)
            else ImageUrlPart(url=part.url, id=part.id)
            for part in self.message
        )
        return Message(role="user", content=tuple(parts))

    def digest(self) -> str:
        """The same for the same request, however its JSON was written."""
        told = self.model_dump(mode="json")
        if self.model is None:
            del told["model"]  # as before there was any: keys outlive versions
        canonical = json.dumps(told, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


class Remembered(BaseModel):
    """Words of the person's own that seem to answer them, word for word."""

    anchor: str
    """Its short form, as `GET /v1/memory/expand` takes it."""
    content: str
    timestamp: Timestamp


class Sent(BaseModel):
    """What became of the message."""

    message_id: str
    run_loop_id: str
    status: Status
    """``idle`` or ``completed``: it was answered; ``running``: it was answered, and the loop works
    on another message; ``waiting_for_human_input``: see `input_required`."""
    response: str | None
    """The words of the answer: the last that were said since the model saw the message. Where an
    answer was cut off and gone on with, all its parts."""
    finish_reason: FinishReason | None
    """Why the answer is not whole: ``length``, its tokens were used up; ``content_filter``, a
    filter of the model's endpoint stopped it. None: it is whole."""
    interrupted_by: str | None
    """The id of a message that was taken in its place, if one was: the answer is to both."""
    iterations: tuple[Iteration, ...]
    """What the loop did since the model saw the message, up to the answer."""
    route: Route | None
    """Why it came to this run loop."""
    alternatives: tuple[RouteCandidate, ...]
    """Where the router was unsure: what else it could have been, likeliest first, as far as it can
    be moved there now; the id ``new`` stands for a new run loop.
    ``POST /v1/run-loops/{id}/reroute`` moves it there, and back."""
    input_required: InputRequired | None
    """What a person is asked."""
    warnings: tuple[Problem, ...] = ()
    """What went wrong meanwhile, and kept nobody from answering: the model cannot see an image that
    was sent, for one."""
    remembered: tuple[Remembered, ...] = ()
    """What the person said before that seems to answer them; told only where a small model answers,
    which may paraphrase it wrongly."""
    parts: tuple[Part, ...] = ()
    """What else was said in the message, where it was taken apart; see `router.split_matters`."""


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
            parts.extend(await delivered(agent, receipt.parts, owner))

        ending = await attend(gather, receive=request.receive, closing=daemon.closing)
    if ending == "client_gone":
        return Response(status_code=204)  # nobody reads it
    return await _answer(agent, outcome, owner, tuple(parts))


async def _frames(
    agent: Agent, receipt: Receipt, events: AsyncGenerator[Event, None], owner: str
) -> AsyncGenerator[bytes, None]:
    yield frame(
        "message.accepted", {"message_id": receipt.message_id, "replayed": receipt.replayed}
    )
    following = frames_with_parts(agent, events, receipt.parts, owner)
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
        remembered=tuple(map(_remembered, outcome.remembered)),
        parts=parts,
    )
    return Response(sent.model_dump_json(), headers=headers, media_type="application/json")


def _remembered(piece: Recollection) -> Remembered:
    anchor = piece.anchor
    return Remembered(anchor=anchor.text, content=piece.content, timestamp=anchor.timestamp)
