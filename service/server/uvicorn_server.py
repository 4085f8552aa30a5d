"""The HTTP server, with an end that is prompt and orderly."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.server.daemon import Daemon

_LAST_ANSWERS_SECONDS = 3
_PATIENCE_SECONDS = 6.0
_KEEP_ALIVE_SECONDS = 60


class UvicornServer(uvicorn.Server):
    """Runs an app of `create_app` on one worker. A signal ends it as `stop` does: in peace."""

    def __init__(
        self,
        app: FastAPI,
        *,
        verbose: bool = False,
        last_resort: Callable[[], None] | None = None,
    ) -> None:
        """`last_resort` is called, from another thread, when the end takes too long."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="debug" if verbose else "warning",
                access_log=verbose,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_LAST_ANSWERS_SECONDS,
            )
        )
        self._daemon: Daemon = app.state.daemon
        self._last_resort = last_resort

    def stop(self) -> None:
        """Begin to end; safe to call from any thread."""
        if not self.should_exit and self._last_resort is not None:
            # Loading a model can neither be interrupted nor should it be waited for.
            timer = threading.Timer(_PATIENCE_SECONDS, self._last_resort)
            timer.daemon = True
            timer.start()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; a second Ctrl-C does not wait for open connections."""
        # Unlike uvicorn's own, it does not die of the signal in the end: it exits with 0.
        self.force_exit |= self.should_exit and sig == signal.SIGINT
        self.stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let streams and waiting answers come to an end, then the connections, then the agent."""
        self._daemon.closing.set()
        await super().shutdown(sockets)
