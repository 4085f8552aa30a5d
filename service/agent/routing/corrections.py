"""What persons have made of the router's decisions: labels for measuring and calibrating it.

A decision that weighed candidates is right where it was left alone, and wrong where a person moved
the message. The journal tells both; nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from anyio import to_thread

from service.domain.events import Event, RouteDecided, RunLoopStarted
from service.domain.routes import Route
from service.memory.history.journal import Journal


@dataclass(frozen=True, slots=True)
class LabelledRoute:
    """One decision of the router's, and what was right."""

    message_id: str
    owner: str
    at: datetime
    """When it was decided."""
    method: str
    """Who decided, as in `Route.method`; never ``explicit`` or ``person``."""
    probabilities: tuple[float, ...]
    """Of each candidate in the order of the route, and last that of a new loop."""
    decided: int
    """The index in `probabilities` of what was decided; of what was likeliest, where a person was
    asked."""
    right: int | None
    """The index of what was right; None: none of them, as the person chose another loop that was
    there but was no candidate."""
    corrected: bool
    """Whether a person decided otherwise; else the decision was left as it was, which is the weaker
    sign."""
    answered: bool = False
    """Whether a person was asked where the message belongs, and said so."""
    model: str | None = None
    """As in `Route`, of which `calibration` is, too."""
    calibration: tuple[float, float] | None = None


async def labelled_routes(journal: Journal, owner: str | None = None) -> list[LabelledRoute]:
    """All decisions that weighed candidates, with their outcomes, oldest first.

    A message that was moved more than once is right where it is now. One that was moved to a loop
    opened later than the decision was a new matter. Copies in forks do not count. Decisions of
    older journals, which tell no probability of a new loop, are left out; so are those that a
    person was asked about, and has not answered.

    Args:
        journal: open.
        owner: whose; None: everybody's.

    Raises:
        StorageError: the journal cannot be read.
    """
    return await to_thread.run_sync(_labelled, journal, owner)


def _labelled(journal: Journal, owner: str | None) -> list[LabelledRoute]:
    first: dict[str, Event] = {}
    place: dict[str, str] = {}
    told = set[str]()
    for event in journal.read_blocking(owner=owner, kind="route.decided"):
        body = event.body
        if not isinstance(body, RouteDecided):
            continue
        message_id = body.message_id
        if body.route.method == "person":
            told.add(message_id)
        if message_id not in first:
            first[message_id], place[message_id] = event, event.run_loop_id
        elif body.route.moved_from == place[message_id]:
            place[message_id] = event.run_loop_id
    opened = {
        event.run_loop_id: event.seq or 0
        for event in journal.read_blocking(owner=owner, kind="run_loop.started")
        if isinstance(event.body, RunLoopStarted)
    }
    found = (
        _label(event, place[message_id], opened, told=message_id in told)
        for message_id, event in first.items()
    )
    return [each for each in found if each is not None]


def _label(
    event: Event, place: str, opened: Mapping[str, int], *, told: bool
) -> LabelledRoute | None:
    body = event.body
    if not isinstance(body, RouteDecided) or not _was_weighed(body.route):
        return None
    route = body.route
    ids = [candidate.run_loop_id for candidate in route.candidates]
    new = len(ids)
    asked = route.method == "asked"
    if asked and not told:
        return None
    probabilities = (
        *(candidate.probability for candidate in route.candidates),
        route.new_probability or 0.0,
    )
    if asked:
        decided = probabilities.index(max(probabilities))
    elif route.decision == "new":
        decided = new
    elif route.run_loop_id in ids:
        decided = ids.index(route.run_loop_id)
    else:
        return None
    right: int | None
    if place == event.run_loop_id:
        right = new if asked else decided
    elif place in ids:
        right = ids.index(place)
    else:
        right = new if opened.get(place, 0) > (event.seq or 0) else None
    return LabelledRoute(
        message_id=body.message_id,
        owner=event.owner,
        at=event.at,
        method=route.method,
        probabilities=probabilities,
        decided=decided,
        right=right,
        corrected=right != decided,
        answered=asked,
        model=route.model,
        calibration=route.calibration,
    )


def _was_weighed(route: Route) -> bool:
    if route.method in ("explicit", "person") or route.new_probability is None:
        return False
    return bool(route.candidates)
