"""``/v1/memory/import`` and ``/v1/memory/export``: run loops as JSON Lines, in streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from service.domain.exchange import ImportReport
from service.server.daemon import Daemon, StoppingError, TheDaemon
from service.server.problems import RequestError
from service.server.security.bearer_auth import Owner
from service.wire.time_parameters import Moment

if TYPE_CHECKING:
    from service.memory.exchange.exporting import Exporting

IMPORT_PATH = "/v1/memory/import"
MEDIA_TYPE = "application/x-ndjson"
COUNT_HEADER = "Rondo-Run-Loops"
"""How many lines an export has, as far as can be told when it begins."""

router = APIRouter(prefix="/v1/memory", tags=["memory"])

_TAKEN = frozenset((MEDIA_TYPE, "application/ndjson", "application/jsonl", "application/jsonlines"))
_PIECE_BYTES = 64_000
_SOURCE = r"^[a-z0-9][a-z0-9._-]{0,39}$"
_LINES: dict[str, Any] = {
    MEDIA_TYPE: {"schema": {"type": "string", "description": "A run loop as JSON on each line"}}
}


@router.post("/import", openapi_extra={"requestBody": {"required": True, "content": _LINES}})
async def import_run_loops(
    request: Request,
    daemon: TheDaemon,
    owner: Owner,
    *,
    source: Annotated[
        str, Query(pattern=_SOURCE, description="Where the run loops come from.")
    ] = "rondo",
    dry_run: Annotated[bool, Query(description="Look at everything, write nothing.")] = False,
) -> ImportReport:
    """Bring in run loops, one a line, however many. What is known already changes nothing.

    A bad line is reported with its number, and the others go in. When the connection breaks, what
    was brought in stays: send the whole file again.
    """
    _check_type(request)
    memory = (await daemon.agent()).memory
    from service.memory.exchange.importing import (
        Importing,  # slow, but loaded once there is an agent
    )

    importing = Importing(memory, owner=owner, source=source, dry_run=dry_run)
    try:
        async with aclosing(_pieces(request, daemon)) as pieces:
            return await importing.take(pieces)
    except ClientDisconnect:
        return importing.report()  # nobody reads it


@router.get(
    "/export",
    response_class=StreamingResponse,
    response_model=None,
    responses={200: {"description": "JSON Lines, oldest run loop first", "content": _LINES}},
)
async def export_run_loops(
    daemon: TheDaemon,
    owner: Owner,
    *,
    since: Annotated[Moment | None, Query(description="Opened then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Opened before then.")] = None,
    run_loop_id: Annotated[str | None, Query(description="Only this one.")] = None,
) -> Response:
    """All run loops, whole; of those that are open what is done of them."""
    memory = (await daemon.agent()).memory
    from service.memory.exchange.exporting import (
        Exporting,  # slow, but loaded once there is an agent
    )

    exporting = Exporting(memory, owner, since=since, until=until, run_loop_id=run_loop_id)
    headers = {
        COUNT_HEADER: str(await exporting.count()),
        "Content-Disposition": 'attachment; filename="rondo-memory.jsonl"',
    }
    return StreamingResponse(_gathered(exporting, daemon), media_type=MEDIA_TYPE, headers=headers)


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() not in _TAKEN:
        raise RequestError(
            415,
            "unsupported-media-type",
            title="An import is JSON Lines",
            detail="the header Content-Type names another kind of body, or none",
            advice=f"Send one run loop a line with the header Content-Type: {MEDIA_TYPE}.",
        )


async def _pieces(request: Request, daemon: Daemon) -> AsyncGenerator[bytes]:
    """The body as it comes, until the daemon stops."""
    stream = request.stream()
    while True:
        piece = await _next_unless(stream, daemon.closing)
        if piece is None:
            return
        yield piece


async def _next_unless(stream: AsyncIterator[bytes], closing: anyio.Event) -> bytes | None:
    piece: bytes | None = None
    left: ClientDisconnect | None = None
    ended = False

    async with anyio.create_task_group() as group:

        async def give_up() -> None:
            await closing.wait()
            group.cancel_scope.cancel()

        group.start_soon(give_up)
        try:
            piece = await anext(stream, None)
        except ClientDisconnect as error:  # as it is, and not as one of a group
            left = error
        ended = True
        group.cancel_scope.cancel()
    if left is not None:
        raise left
    if not ended:
        raise StoppingError(
            "the import was not read to its end", advice="Send it again once the daemon runs."
        )
    return piece


async def _gathered(exporting: Exporting, daemon: Daemon) -> AsyncGenerator[bytes]:
    """Lines in pieces that are worth sending.

    Raises:
        StoppingError: the daemon stops: the answer breaks off, and so cannot be taken for whole.
    """
    piece = bytearray()
    async with aclosing(exporting.lines()) as lines:
        async for line in lines:
            piece += line
            if len(piece) >= _PIECE_BYTES:
                yield bytes(piece)
                piece = bytearray()
            if daemon.closing.is_set():
                raise StoppingError("the export broke off", advice="Export again.")
    yield bytes(piece)
