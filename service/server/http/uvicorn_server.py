"""The HTTP server: as many connections as there is room for, and an end that is prompt and orderly.

Connections are not taken in asyncio's own way: without a descriptor left that tries again two
thousand times a second, and logs each time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from service.server.http.connection_limits import Limits
from service.server.http.http_protocol import SURPLUS, BoundedProtocol, Silent
from service.server.problems import RequestError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.server.daemon import Daemon

log = logging.getLogger(__name__)

_AT_ONCE = 64  # connections that are taken before anything else has its turn
_BACK_OFF_SECONDS = 0.5
_MADE_FREE = 16  # connections that are closed when there are no descriptors
_SILENCE_SECONDS = 60.0
_NO_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

MakeProtocol = Callable[[bool], BoundedProtocol]
"""Makes the protocol of a new connection; the argument: whether it is one too many."""
_TOO_MANY = RequestError(
    503,
    "too-many-connections",
    title="Too many connections are at work",
    advice="Try again in a moment; close streams that nobody reads; or raise"
    " server.max_connections in rondo.toml.",
    headers={"Connection": "close"},
)
_LAST_ANSWERS_SECONDS = 3
_PATIENCE_SECONDS = 6.0
_KEEP_ALIVE_SECONDS = 60
_TICKS_BETWEEN_CHECKS = 10  # a tick is a tenth of a second


class Acceptor:
    """Takes the connections of a listening socket, from `start` to `stop`."""

    def __init__(
        self,
        listener: socket.socket,
        make: MakeProtocol,
        *,
        limits: Limits,
        connections: set[BoundedProtocol],
        silent: Silent,
    ) -> None:
        """`connections` are all, `silent` those on which no request is at work."""
        self._listener = listener
        self._make = make
        self._limits = limits
        self._connections = connections
        self._silent = silent
        self._joining: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._told: dict[str, float] = {}

    def start(self) -> None:
        """Begin."""
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._take)

    def stop(self) -> None:
        """Take no more."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                self._back_off(error)
                return
            connection.setblocking(False)
            self._join(connection)

    def _back_off(self, error: OSError) -> None:
        self._tell(
            "resources",
            f"no connection can be taken: {error.strerror}. Those that are silent are closed; more"
            " open files can be allowed with `ulimit -n`, or LimitNOFILE of the daemon's service",
        )
        for protocol in list(islice(self._silent, _MADE_FREE)):
            protocol.transport.abort()
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(_BACK_OFF_SECONDS, self.start)

    def _join(self, connection: socket.socket) -> None:
        """Let a connection in: in the place of a silent one, or as one too many; else close it."""
        taken = len(self._connections) + len(self._joining)
        surplus = False
        if taken >= self._limits.connections:
            longest = next(iter(self._silent), None)
            self._tell(
                "connections",
                f"all {self._limits.connections:,} connections are taken (server.max_connections)."
                " Those on which nothing is asked make room for new ones",
            )
            if longest is not None:
                del self._silent[longest]
                longest.transport.abort()
            elif taken < self._limits.connections + self._limits.spare_connections:
                surplus = True
            else:
                connection.close()
                return
        task = self._loop.create_task(self._connect(connection, surplus))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _connect(self, connection: socket.socket, surplus: bool) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._make(surplus), connection)
        except OSError:
            connection.close()  # it has gone already

    def _tell(self, what: str, words: str) -> None:
        """Log it, but not again within a minute."""
        now = self._loop.time()
        if now - self._told.get(what, float("-inf")) >= _SILENCE_SECONDS:
            self._told[what] = now
            log.warning("%s", words)


class Crowded:
    """Refuses requests on surplus connections with 503, but for the question whether we live."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through unless there are too many."""
        surplus = scope["type"] == "http" and scope.get("state", {}).get(SURPLUS, False)
        if surplus and scope["path"] != "/healthz":
            await _TOO_MANY.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


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
