"""Messages that a person moves to another run loop, and why each message is where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from service.domain.events import (
    Event,
    EventBody,
    IterationStarted,
    MessageMoved,
    RouteDecided,
)
from service.domain.routes import Route
from service.domain.run_loops import RunLoop, RunLoopSummary, Timestamp
from service.memory.history.journal import Journal
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


_GOAL_CHARACTERS = 500


class DecidedRoute(BaseModel):
    """Why a message came to a run loop."""

    message_id: str
    at: Timestamp
    route: Route
    iteration: int | None
    """The index of the iteration that has observed it; None: none yet."""
    moved_to: str | None
    """The run loop to which a person has moved it since."""


class RunLoopLine(RunLoopSummary):
    """A run loop in a list, and why it is as it is; a long goal is shortened."""

    route: Route | None
    """Why its newest message is here; None where that was moved away, or it was not asked."""
    moved_to: str | None
    """Where its newest message was moved, if it was; None, too, where it was not asked."""


class RerouteRequest(BaseModel):
    """Where a message belongs."""

    model_config = ConfigDict(extra="forbid")

    message_id: str | None = None
    """None: the newest message of the run loop. A request that is made again must name it, or it
    moves the next one."""
    to: str | None
    """The run loop where it belongs, active or ended; null: a new one."""


class Rerouted(BaseModel):
    """What was moved, and where to."""

    moved: list[str]
    """The messages: those that were observed together are moved together."""
    from_run_loop_id: Annotated[str, Field(serialization_alias="from")]
    to: str
    run_loop: RunLoop
    """The one that they are in now."""


@router.post("/{run_loop_id:path}/reroute")
async def reroute(
    run_loop_id: str, daemon: TheDaemon, owner: Owner, request: RerouteRequest
) -> Rerouted:
    """Move a message, and what followed from it, to the run loop where it belongs."""
    agent = await daemon.agent()
    moved = await agent.reroute(
        run_loop_id, message_id=request.message_id, to=request.to, owner=owner
    )
    return Rerouted(
        moved=list(moved.message_ids),
        from_run_loop_id=moved.from_run_loop_id,
        to=moved.to_run_loop_id,
        run_loop=moved.run_loop,
    )


async def decided_routes(journal: Journal, run_loop_id: str, *, until: int) -> list[DecidedRoute]:
    """Why each message came to a run loop, oldest first.

    Args:
        journal: open.
        run_loop_id: the loop.
        until: the last event that counts.
    """
    found: list[DecidedRoute] = []
    for event in await _told(journal, run_loop_id, until):
        match event.body:
            case RouteDecided(message_id=message_id, route=route):
                found.append(
                    DecidedRoute(
                        message_id=message_id,
                        at=event.at,
                        route=route,
                        iteration=None,
                        moved_to=None,
                    )
                )
            case IterationStarted(index=index, message_ids=ids):
                for each in _of(found, ids):
                    if each.iteration is None:  # older journals name none: the first after it
                        each.iteration = index
            case MessageMoved(message_ids=ids, to_run_loop_id=to):
                for each in _of(found, ids):
                    each.moved_to = to
            case _:
                pass
    return found


async def lines_of(
    journal: Journal, run_loops: Sequence[RunLoopSummary], *, why: bool
) -> list[RunLoopLine]:
    """Lines of a list; with `why`, what was decided last about a message of each.

    That takes time in proportion to the histories of these run loops.
    """
    newest: Mapping[str, EventBody] = {}
    if why:
        decided = await journal.decided_last([each.id for each in run_loops])
        newest = {run_loop_id: _of_newest(told) for run_loop_id, told in decided.items()}
    lines = []
    for each in run_loops:
        body = newest.get(each.id)
        lines.append(
            RunLoopLine(
                **{**dict(each), "goal": _shortened(each.goal)},
                route=body.route if isinstance(body, RouteDecided) else None,
                moved_to=body.to_run_loop_id if isinstance(body, MessageMoved) else None,
            )
        )
    return lines


def _shortened(goal: str) -> str:
    """A goal for a list: what a person said may be very long."""
    return goal if len(goal) <= _GOAL_CHARACTERS else f"{goal[:_GOAL_CHARACTERS]}…"


def _of_newest(told: Sequence[EventBody]) -> EventBody:
    """What was decided last, or that its message was moved since.

    Args:
        told: the newest decision, if there is any, and the moves after it.
    """
    first, *later = told
    if isinstance(first, RouteDecided):
        for moved in later:
            if isinstance(moved, MessageMoved) and first.message_id in moved.message_ids:
                return moved
    return first


async def _told(journal: Journal, run_loop_id: str, until: int) -> list[Event]:
    kinds = ("route.decided", "iteration.started", "message.moved")
    events = [
        event for kind in kinds for event in await journal.read(run_loop_id=run_loop_id, kind=kind)
    ]
    return sorted(
        (event for event in events if (event.seq or 0) <= until), key=lambda event: event.seq or 0
    )


def _of(routes: Iterable[DecidedRoute], message_ids: Iterable[str] | None) -> list[DecidedRoute]:
    """Those of these messages (None: of all) that are still in the loop."""
    wanted = None if message_ids is None else set(message_ids)
    return [
        each
        for each in routes
        if each.moved_to is None and (wanted is None or each.message_id in wanted)
    ]
