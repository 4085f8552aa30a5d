"""``/v1/run-loops``: the matters that a person has with the assistant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.domain.errors import InvalidInputError, Problem
from service.domain.events import InputRequired, RouteDecided
from service.domain.routes import Route
from service.domain.run_loops import ACTIVE, RunLoop, RunLoopSummary, Status, Timestamp
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


def with_zone(at: datetime) -> datetime:
    """A moment given without a time zone is meant in UTC."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(with_zone)]
"""A moment from a client: ISO 8601; UTC where it names no time zone."""


class RunLoopPage(BaseModel):
    """A part of the list."""

    run_loops: list[RunLoopSummary]
    next_before: str | None
    """What to send as `before` for the part after this one; None at the end."""


class DecidedRoute(BaseModel):
    """Why a message came to a run loop."""

    message_id: str
    at: Timestamp
    route: Route


class RunLoopDetails(RunLoop):
    """A run loop, whole."""

    updated_at: Timestamp
    routes: list[DecidedRoute]
    """For each message that came in: why it came here."""
    input_required: InputRequired | None
    """What a person is asked, while the loop waits for an answer."""
    problem: Problem | None
    """Why it failed."""


class InputAnswer(BaseModel):
    """A person's answer to a run loop that waits for one."""

    model_config = ConfigDict(extra="forbid")

    approved: bool | None = Field(default=None, strict=True)
    """For a question of the kind ``approve``: whether the calls may run."""
    text: str | None = None
    """The answer in words; for a no, its reason. Not with a yes: the words may say otherwise."""
    request_id: str | None = None
    """Which question is answered; the open one when it is not given."""


@router.get("")
async def list_run_loops(
    daemon: TheDaemon,
    owner: Owner,
    *,
    status: Annotated[
        list[Status | Literal["active"]] | None,
        Query(description="Only these; `active` stands for the three that can be joined."),
    ] = None,
    since: Annotated[Moment | None, Query(description="Opened then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Opened before then.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[
        str | None, Query(description="Go on after this run loop: `next_before` of the last page.")
    ] = None,
) -> RunLoopPage:
    """The run loops, newest first, without their words."""
    journal = (await daemon.agent()).memory.journal
    if before is not None:
        await journal.replay(before, owner=owner)  # not found rather than an empty page
    found = await journal.run_loops.summaries(
        owner=owner,
        statuses=_statuses(status),
        since=since,
        until=until,
        before_id=before,
        limit=limit + 1,
    )
    page = found[:limit]
    return RunLoopPage(run_loops=page, next_before=page[-1].id if len(found) > limit else None)


@router.post("/{run_loop_id:path}/cancel")
async def cancel(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Stop a run loop. Answers once its work has really ended."""
    return await (await daemon.agent()).cancel(run_loop_id, owner=owner)


@router.post("/{run_loop_id:path}/complete")
async def complete(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Declare a run loop done, so that it goes to long-term memory."""
    return await (await daemon.agent()).complete(run_loop_id, owner=owner)


@router.post("/{run_loop_id:path}/input")
async def answer(run_loop_id: str, answer: InputAnswer, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Answer a run loop that waits for a person. Anything but ``"approved": true`` is a no."""
    if answer.approved and answer.text is not None:
        raise InvalidInputError(
            "`approved` is true, and `text` is there too: the words might take the yes back",
            advice='Send {"approved": true} alone; or with "approved": false the reason in `text`.',
        )
    agent = await daemon.agent()
    await agent.answer(
        run_loop_id,
        approved=answer.approved,
        text=answer.text,
        request_id=answer.request_id,
        owner=owner,
    )
    return await agent.run_loop(run_loop_id, owner=owner)


# Last of all: an id may hold a slash, and so this would take the addresses above as ids.
details_router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


@details_router.get("/{run_loop_id:path}")
async def show(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> RunLoopDetails:
    """A run loop, whole, and why each message came to it."""
    journal = (await daemon.agent()).memory.journal
    state = await journal.replay(run_loop_id, owner=owner)
    events = await journal.read(run_loop_id=run_loop_id)
    return RunLoopDetails(
        **dict(state.run_loop()),
        updated_at=state.updated_at,
        routes=[
            DecidedRoute(message_id=event.body.message_id, at=event.at, route=event.body.route)
            for event in events
            if isinstance(event.body, RouteDecided)
        ],
        input_required=state.awaiting,
        problem=state.problem,
    )


def _statuses(asked: list[Status | Literal["active"]] | None) -> frozenset[Status] | None:
    if asked is None:
        return None
    found: set[Status] = set()
    for status in asked:
        found |= ACTIVE if status == "active" else {status}
    return None if found == set(get_args(Status)) else frozenset(found)
