"""What persons have made of the router's decisions: labels for measuring and calibrating it.

A decision that weighed candidates is right where it was left alone, and wrong where a person moved
the message. The journal tells both; nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from anyio import to_thread

from service.domain.history.events import Event, MessageMoved, RouteDecided, RunLoopStarted
from service.domain.routes import Route
from service.memory.journal.protocol import Journal


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
    opened later than the decision was a new topic. Copies in forks do not count. Decisions of
    older journals, which tell no probability of a new loop, are left out; so are those that a
    person was asked about, and has not answered, and those of messages whose loop was forgotten
    and was no candidate.

    Args:
        journal: open.
        owner: whose; None: everybody's.

    Raises:
        StorageError: the journal cannot be read.
    """
    return await to_thread.run_sync(_labelled, journal, owner)


def _labelled(journal: Journal, owner: str | None) -> list[LabelledRoute]:
    opened = {
        event.run_loop_id: event
        for event in journal.read_blocking(owner=owner, kind="run_loop.started")
    }
    first: dict[str, Event] = {}
    place: dict[str, str] = {}
    placed_by_person = set[str]()
    for event in _decisions(journal, owner):
        body = event.body
        if isinstance(body, MessageMoved):
            # The loop that they came to may have been forgotten since.
            for message_id in body.message_ids:
                if place.get(message_id) == event.run_loop_id:
                    place[message_id] = body.to_run_loop_id
                    placed_by_person.add(message_id)
        elif isinstance(body, RouteDecided) and not _is_copy(event, opened):
            message_id = body.message_id
            if body.route.method == "person":
                placed_by_person.add(message_id)
            if message_id not in first:
                first[message_id], place[message_id] = event, event.run_loop_id
            elif body.route.moved_from == place[message_id]:
                place[message_id] = event.run_loop_id  # the loop that they left may be forgotten
    labelled = (
        _label(event, place[message_id], opened, by_person=message_id in placed_by_person)
        for message_id, event in first.items()
    )
    return [each for each in labelled if each is not None]


def _decisions(journal: Journal, owner: str | None) -> list[Event]:
    """What the router and persons decided, oldest first."""
    kinds = ("route.decided", "message.moved")
    events = [each for kind in kinds for each in journal.read_blocking(owner=owner, kind=kind)]
    return sorted(events, key=lambda event: event.seq or 0)


def _is_copy(event: Event, opened: Mapping[str, Event]) -> bool:
    """Whether it came along into a fork; what came along keeps its time."""
    started = opened.get(event.run_loop_id)
    if started is None or not isinstance(started.body, RunLoopStarted):
        return False
    return started.body.forked_from is not None and event.at <= started.at


def _label(
    event: Event, place: str, opened: Mapping[str, Event], *, by_person: bool
) -> LabelledRoute | None:
    body = event.body
    if not isinstance(body, RouteDecided) or not _was_weighed(body.route):
        return None
    route = body.route
    ids = [candidate.run_loop_id for candidate in route.candidates]
    new = len(ids)
    asked = route.method == "asked"
    if asked and not by_person:
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
    elif place in opened:
        right = new if (opened[place].seq or 0) > (event.seq or 0) else None
    else:
        return None  # whether it was there then, or new, was forgotten with it
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
