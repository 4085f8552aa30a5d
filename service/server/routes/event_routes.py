"""Event streams: of one run loop, and of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from starlette.responses import StreamingResponse

from service.domain.errors import InvalidInputError
from service.domain.history.events import TERMINAL, Event, RunLoopImported
from service.server.daemon import TheDaemon
from service.server.due_events import events_with_due
from service.server.event_streams import EventStream, event_frames, place
from service.server.security.bearer_auth import Owner

if TYPE_CHECKING:
    from service.memory.journal.protocol import Journal

router = APIRouter(prefix="/v1", tags=["events"])

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `event` is the type, `id` the journal sequence, "
        "`data` the event as JSON. Deltas have no id.",
        "content": {"text/event-stream": {}},
    }
}
LastEventId = Annotated[
    str | None, Header(description="Go on after this event; comes before `after`.")
]
After = Annotated[int | None, Query(ge=0, lt=2**63, description="Go on after this event.")]


@router.get("/events", response_class=StreamingResponse, response_model=None, responses=STREAM)
async def all_events(
    daemon: TheDaemon, owner: Owner, last_event_id: LastEventId = None, after: After = None
) -> Response:
    """The events of all run loops: from now on, or resumed without gap or repeat.

    From now on, what schedules have opened and nobody was told of comes first, from its beginning.
    """
    agent = await daemon.agent()
    journal = agent.memory.journal
    begin = _known(place(last_event_id, after), journal)
    is_fresh = begin is None
    if begin is None:
        begin = journal.last_seq  # nothing that happens while the answer begins is missed
    frames = event_frames(events_with_due(agent, owner, after=begin, is_fresh=is_fresh))
    heartbeat = daemon.settings.server.heartbeat_seconds
    return EventStream(frames, closing=daemon.closing, heartbeat_seconds=heartbeat)


@router.get(
    "/run-loops/{run_loop_id:path}/events",
    response_class=StreamingResponse,
    response_model=None,
    responses={**STREAM, 204: {"description": "The run loop has ended, and nothing more comes"}},
)
async def loop_events(
    run_loop_id: str,
    daemon: TheDaemon,
    owner: Owner,
    last_event_id: LastEventId = None,
    after: After = None,
) -> Response:
    """The events of a run loop from its beginning, or resumed, until it has ended.

    One that is taken up again afterwards goes on for a client that comes back.
    """
    agent = await daemon.agent()
    state = await agent.memory.journal.replay(run_loop_id, owner=owner)
    begin = _known(place(last_event_id, after), agent.memory.journal) or 0
    if not state.is_active and begin >= state.last_seq:
        return Response(status_code=204)  # tells a browser not to connect again

    def is_the_end(event: Event) -> bool:
        # A loop that was taken up again has had an end before; a fork begins with another's words.
        ends = isinstance(event.body, TERMINAL) or (
            isinstance(event.body, RunLoopImported) and not state.is_active
        )
        return ends and (event.seq or 0) >= state.last_seq

    events = agent.events(owner=owner, run_loop_id=run_loop_id, after=begin)
    return EventStream(
        event_frames(events, until=is_the_end),
        closing=daemon.closing,
        heartbeat_seconds=daemon.settings.server.heartbeat_seconds,
    )


def _known(begin: int | None, journal: Journal) -> int | None:
    if begin is not None and begin > journal.last_seq:
        raise InvalidInputError(
            f"there is no event {begin} yet: the newest is {journal.last_seq}",
            advice="The data folder may be another one than before. "
            "Begin without Last-Event-ID and without `after`.",
        )
    return begin
