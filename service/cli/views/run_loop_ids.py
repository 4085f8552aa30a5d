"""Finding a run loop by the beginning of its id, as people type it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import RefusedError
from service.cli.daemon.daemon_requests import loop_path
from service.cli.daemon.stream_items import read_as
from service.cli.terminal.output import one_line
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.run_loops import RunLoopSummary
from service.wire.run_loop_bodies import RunLoopLine, RunLoopPage

_PAGE = 200
_WHOLE_ID = 16


def run_loops(
    daemon: Daemon, *, statuses: Sequence[str] = (), limit: int | None = None, why: bool = False
) -> Iterator[RunLoopLine]:
    """The run loops, newest first, page by page.

    Args:
        daemon: is asked.
        statuses: only these; ``active`` stands for those that can be joined. Empty: all.
        limit: at most so many; None: all.
        why: whether to ask why the newest message of each is there.
    """
    before: str | None = None
    while limit is None or limit > 0:
        params: dict[str, str | int | list[str]] = {
            "limit": _PAGE if limit is None else min(limit, _PAGE)
        }
        if why:
            params["why"] = "true"
        if statuses:
            params["status"] = list(statuses)
        if before is not None:
            params["before"] = before
        page = read_as(RunLoopPage, daemon.get("/v1/run-loops", params))
        yield from page.run_loops
        if limit is not None:
            limit -= len(page.run_loops)
        if page.next_before is None:
            return
        before = page.next_before


def resolve(daemon: Daemon, beginning: str) -> str:
    """The id that begins so.

    Raises:
        NotFoundError: no run loop's id begins so.
        InvalidInputError: several do; says which.
        DaemonError: the daemon cannot be asked.
    """
    beginning = beginning.strip().removesuffix("…")  # as a list shows it
    if not beginning:
        raise InvalidInputError("the id of a run loop is empty", advice="`rondo loops` lists them.")
    if len(beginning) >= _WHOLE_ID and _exists(daemon, beginning):
        return beginning
    return choose(beginning, list(run_loops(daemon)))


def choose(beginning: str, loops: Sequence[RunLoopSummary]) -> str:
    """The one id among these that begins so, or is exactly so.

    Raises:
        NotFoundError: none begins so.
        InvalidInputError: several do; says which.
    """
    fitting = [loop for loop in loops if loop.id.startswith(beginning)]
    if any(loop.id == beginning for loop in fitting):
        return beginning
    if not fitting:
        raise NotFoundError(
            f"no run loop's id begins with {beginning!r}", advice="`rondo loops` lists them."
        )
    if len(fitting) > 1:
        shown = ", ".join(f"{loop.id} ({one_line(loop.goal, 30)})" for loop in fitting[:4])
        more = f" and {len(fitting) - 4} more" if len(fitting) > 4 else ""
        raise InvalidInputError(
            f"{len(fitting)} run loops' ids begin with {beginning!r}: {shown}{more}",
            advice="Give more of the id.",
        )
    return fitting[0].id


def _exists(daemon: Daemon, run_loop_id: str) -> bool:
    try:
        daemon.get(loop_path(run_loop_id))
    except RefusedError as error:
        if error.status == 404:
            return False
        raise
    return True
