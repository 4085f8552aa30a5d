"""The daemon as a process: one socket, one worker, and an orderly end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from service.config import ServerSettings, Settings
from service.domain.errors import ConfigurationError, ConflictError, RondoError
from service.server.model_progress import ModelProgress
from service.server.security.bearer_token import ScrubbingFormatter

if TYPE_CHECKING:
    from service.server.daemon import Daemon
    from service.server.http.uvicorn_server import UvicornServer
    from service.server.security.bearer_token import Token

log = logging.getLogger(__name__)

_BACKLOG = 1024
_LOOK_AT_THE_MODEL_SECONDS = 0.25


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C. A daemon that cannot go on says why and exits with 1.

    Raises:
        SystemExit: 1, when it could not start or go on.
    """
    level = settings.log_level.upper()
    # Libraries write at debug what is sent through them: words, and keys.
    progress = ModelProgress(sys.stderr)
    logging.basicConfig(level="INFO" if level == "DEBUG" else level, stream=progress)
    logging.getLogger("service").setLevel(level)
    scrubbing = ScrubbingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.setFormatter(scrubbing)
    for chatty in ("httpx", "httpx2", "httpcore", "openai", "chromadb"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    for told in ("mcp.client", "mcp.shared"):  # what goes wrong there, we tell ourselves
        logging.getLogger(told).setLevel(logging.CRITICAL)
    try:
        run(settings, know_secret=scrubbing.know, progress=progress)
    except RondoError as error:
        print(error.problem().in_words(), file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:  # Ctrl-C before there was anything to stop
        raise SystemExit(130) from None


def run(
    settings: Settings,
    *,
    know_secret: Callable[[str], None] = lambda secret: None,
    progress: ModelProgress | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        settings: where to listen, and with what.
        know_secret: is told the token, before anybody can send it.
        progress: shows how far the embedded model has come, where it is fetched.

    Raises:
        RondoError: it could not start or go on: the port or the data folder is in use, say.
    """
    with listen(settings.server) as listener:
        warn_when_others_can_reach(listener)
        # From here on a client is no longer refused, but waits for what takes long: importing.
        from service.server.http.connection_limits import limits_for
        from service.server.http.uvicorn_server import UvicornServer
        from service.server.http_app import create_app
        from service.server.security.bearer_token import load_token

        token = load_token(settings.data_dir)  # first, to know whether it is new
        know_secret(token.value)
        app = create_app(settings)
        daemon: Daemon = app.state.daemon
        server = UvicornServer(
            app,
            verbose=settings.log_level == "debug",
            last_resort=lambda: _leave(1 if daemon.failure else 0),
            limits=limits_for(settings.server.max_connections),
        )
        words = greeting(url_of(listener), token)
        try:
            asyncio.run(_serve(server, daemon, listener, words, progress))
        finally:
            if progress is not None:
                progress.clear()
        if daemon.failure is not None:
            raise daemon.failure


async def _serve(
    server: UvicornServer,
    daemon: Daemon,
    listener: socket.socket,
    words: str,
    progress: ModelProgress | None,
) -> None:
    """Serve, and tell meanwhile how the agent gets on; end where it cannot."""
    beside = [
        asyncio.create_task(_stop_after_failure(server, daemon)),
        asyncio.create_task(_announce(daemon, words, progress)),
    ]
    try:
        await server.serve(sockets=[listener])
    finally:
        for each in beside:
            each.cancel()
        await asyncio.wait(beside)


async def _stop_after_failure(server: UvicornServer, daemon: Daemon) -> None:
    await daemon.failed.wait()
    server.stop()


async def _announce(daemon: Daemon, words: str, progress: ModelProgress | None) -> None:
    """Say when the agent works, and how far its model has come until that can answer."""
    agent = await daemon.started()
    if agent is None:
        return
    print(words, flush=True)
    if progress is None:
        return
    model = agent.models.of(None).llm
    while not daemon.closing.is_set():
        status = model.status()
        progress.update(status)
        if status.ready:
            return
        await asyncio.sleep(_LOOK_AT_THE_MODEL_SECONDS)  # it may have to be fetched first


def _leave(code: int) -> None:
    """End the process without waiting for its threads: as safe as being killed, so quite safe."""
    log.warning("work in the background is left where it is; the next start takes it up")
    logging.shutdown()
    os._exit(code)


def listen(settings: ServerSettings) -> socket.socket:
    """A socket that listens where the settings say; port 0 picks a free one.

    Raises:
        ConflictError: the port is in use.
        ConfigurationError: this machine cannot listen there.
    """
    where = f"port {settings.port} of {settings.host or 'all addresses'}"
    try:
        addresses = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
        made = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConflictError(
                f"{where} is in use by another program",
                title="The daemon cannot listen",
                advice="A daemon may be running already: `rondo doctor` tells. "
                "Stop it, or choose another port with RONDO_SERVER__PORT.",
            ) from error
        raise ConfigurationError(
            f"{where}: {error.strerror or error}",
            title="The daemon cannot listen",
            advice="Correct server.host and server.port.",
        ) from error
    # asyncio sets TCP_NODELAY only where the protocol is named: without it, each further request on
    # a connection waits 40 ms for the client's delayed acknowledgement.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


def warn_when_others_can_reach(listener: socket.socket) -> None:
    """Say in the log when a socket listens for more than this machine."""
    host = listener.getsockname()[0]
    if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        log.warning(
            "the daemon listens on %s: other machines can reach it, and what is sent, the token"
            " too, is not encrypted. Set server.host to 127.0.0.1 unless you mean it.",
            {"0.0.0.0": "all addresses", "::": "all addresses"}.get(host, host),
        )


def url_of(listener: socket.socket) -> str:
    """The address at which a listening socket is reached from this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def greeting(url: str, token: Token) -> str:
    """What is said once the daemon works; the token only when it is new."""
    lines = [f"Rondo is ready at {url} (API: {url}/docs). Stop it with Ctrl-C."]
    if token.is_new:
        lines += [
            f"Token for programs that call it, shown this once: {token.value}",
            f"It is kept in {token.file}; the rondo commands find it there.",
        ]
    return "\n".join(lines)
