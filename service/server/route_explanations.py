"""Why each message is in the run loop where it is, as the API tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from service.domain.history.events import (
    Event,
    EventBody,
    IterationStarted,
    MessageMoved,
    RouteDecided,
)
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoopSummary
from service.memory.journal.protocol import Journal
from service.wire.run_loop_bodies import DecidedRoute, RunLoopLine

_GOAL_CHARACTERS = 500


async def decided_routes(journal: Journal, run_loop_id: str, *, until: int) -> list[DecidedRoute]:
    """Why each message came to a run loop, oldest first.

    Args:
        journal: open.
        run_loop_id: the loop.
        until: the last event that counts.
    """
    routes: list[DecidedRoute] = []
    for event in await _told(journal, run_loop_id, until):
        match event.body:
            case RouteDecided(message_id=message_id, route=route):
                routes.append(
                    DecidedRoute(
                        message_id=message_id,
                        at=event.at,
                        route=route,
                        iteration=None,
                        moved_to=None,
                    )
                )
            case IterationStarted(index=index, message_ids=ids):
                for each in _of(routes, ids):
                    if each.iteration is None:  # older journals name none: the first after it
                        each.iteration = index
            case MessageMoved(message_ids=ids, to_run_loop_id=to):
                for each in _of(routes, ids):
                    each.moved_to = to
            case _:
                pass
    return routes


def answers_among(routes: Sequence[DecidedRoute], state: RunLoopState) -> list[DecidedRoute]:
    """Unsure routes of messages that the loop has taken for answers to what it asks."""
    waiting = {each.id for each in state.unseen}
    return [
        each
        for each in routes
        if each.route.alternatives
        and each.iteration is None
        and each.is_here
        and each.message_id not in waiting
    ]


async def lines_of(
    journal: Journal, run_loops: Sequence[RunLoopSummary], *, why: bool
) -> list[RunLoopLine]:
    """Lines of a list; with `why`, what was decided last about a message of each.

    That takes time in proportion to the histories of these run loops.
    """
    newest: Mapping[str, EventBody] = {}
    if why:
        decided = await journal.decided_last([each.id for each in run_loops])
        newest = {run_loop_id: _of_newest(bodies) for run_loop_id, bodies in decided.items()}
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


def _of_newest(bodies: Sequence[EventBody]) -> EventBody:
    """What was decided last, or that its message was moved since.

    Args:
        bodies: the newest decision, if there is any, and the moves after it.
    """
    first, *later = bodies
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
    ids = None if message_ids is None else set(message_ids)
    return [each for each in routes if each.is_here and (ids is None or each.message_id in ids)]
