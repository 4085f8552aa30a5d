"""The HTTP server, with an end that is prompt and orderly."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from service.server.http.acceptor import Acceptor
from service.server.http.connection_limits import Limits
from service.server.http.http_protocol import BoundedProtocol, Silent

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.server.daemon import Daemon

_LAST_ANSWERS_SECONDS = 3
_PATIENCE_SECONDS = 6.0
_KEEP_ALIVE_SECONDS = 60
_TICKS_BETWEEN_CHECKS = 10  # a tick is a tenth of a second


class UvicornServer(uvicorn.Server):
    """Runs an app of `create_app` on one worker. A signal ends it as `stop` does: in peace."""

    def __init__(
        self,
        app: FastAPI,
        *,
        verbose: bool = False,
        last_resort: Callable[[], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`last_resort` is called, from another thread, when the end takes too long."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=BoundedProtocol,
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
        self._limits = limits or Limits()
        self._connections: set[BoundedProtocol] = set()
        self._silent: Silent = {}
        self._acceptors: list[Acceptor] = []
        self.server_state.connections = self._connections  # type: ignore[assignment]

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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the app, and take connections."""
        await super().startup(sockets=[])
        for each in sockets or []:
            acceptor = Acceptor(
                each,
                self._protocol,
                limits=self._limits,
                connections=self._connections,
                silent=self._silent,
            )
            acceptor.start()
            self._acceptors.append(acceptor)

    async def on_tick(self, counter: int) -> bool:
        """Cut off connections that take too long, beside uvicorn's own work."""
        if counter % _TICKS_BETWEEN_CHECKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self._connections):
                connection.check(now)
        return await super().on_tick(counter)

    def _protocol(self, surplus: bool) -> BoundedProtocol:
        return BoundedProtocol(
            self.config,
            self.server_state,
            self.lifespan.state,
            limits=self._limits,
            silent=self._silent,
            surplus=surplus,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let streams and waiting answers come to an end, then the connections, then the agent."""
        self._daemon.closing.set()
        for acceptor in self._acceptors:
            acceptor.stop()
        await super().shutdown(sockets)
