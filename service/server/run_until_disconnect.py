"""Working for a client for as long as it is there and the daemon runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from starlette.types import Receive

Ending = Literal["done", "client_gone", "stopping"]


async def run_until_disconnect(
    work: Callable[[], Awaitable[None]], *, receive: Receive, closing: anyio.Event
) -> Ending:
    """Run `work` until it is done, the client goes away, or the daemon stops.

    What `work` raises is raised here. The body of the request must have been read before.
    """
    ending: Ending = "done"
    failure: Exception | None = None

    async with anyio.create_task_group() as group:

        def end(how: Ending) -> None:
            nonlocal ending
            ending = how
            group.cancel_scope.cancel()

        async def watch_client() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            end("client_gone")

        async def watch_daemon() -> None:
            await closing.wait()
            end("stopping")

        group.start_soon(watch_client)
        group.start_soon(watch_daemon)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group that wraps it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return ending
