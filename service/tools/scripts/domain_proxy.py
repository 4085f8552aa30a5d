"""A proxy for programs that may ask some hosts only.

HTTP/1.1 as of RFC 9112: tunnels (``CONNECT``, for https), and requests with a whole address (for
http), of which a connection carries one. A name is resolved once, all its addresses must be public,
and the connection goes to one of those that were checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import os
import tempfile
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, SocketStream

from service.network_grants import matches
from service.tools.web.public_addresses import Resolve, is_public, resolved

_HEAD_BYTES = 32_000
_SECONDS = 20  # for a request's head, and for a connection to the host
_AT_ONCE = 100
_LONGEST_PATH = 100  # of a socket, in bytes; the kernel takes 107
_OWN_HEADERS = (b"connection", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"te")
_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@dataclass(frozen=True, slots=True)
class _Request:
    host: str
    port: int
    passed_on: bytes
    """What the host is sent first; empty for a tunnel."""


class _RefusedError(Exception):
    def __init__(self, status: http.HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class DomainProxy:
    """Connects to the hosts that it is made for."""

    def __init__(
        self,
        domains: tuple[str, ...],
        *,
        resolve: Resolve = resolved,
        ports: Collection[int] = (80, 443),
        private_hosts: Collection[str] = (),
    ) -> None:
        """Name the hosts.

        Args:
            domains: names, or ``*.`` and a name for all below it.
            resolve: tells the addresses of a name.
            ports: at which they may be asked.
            private_hosts: names that may be anywhere.
        """
        self._domains = domains
        self._resolve = resolve
        self._ports = ports
        self._private_hosts = private_hosts
        self._limiter = anyio.Semaphore(_AT_ONCE)

    @contextlib.asynccontextmanager
    async def listening(self, folder: Path) -> AsyncIterator[Path]:
        """Listen at a socket in a folder, or elsewhere where its path is too long for one."""
        with contextlib.ExitStack() as stack:
            path = folder / "proxy"
            if len(os.fsencode(path)) > _LONGEST_PATH:
                other = stack.enter_context(tempfile.TemporaryDirectory(prefix="rondo-proxy-"))
                path = Path(other, "proxy")
            listener = await anyio.create_unix_listener(path, mode=0o600)
            # No task group around the caller: its errors would come in groups.
            serving = asyncio.create_task(listener.serve(self._serve))
            try:
                yield path
            finally:
                with anyio.CancelScope(shield=True):
                    serving.cancel()
                    await asyncio.wait((serving,))
                    await listener.aclose()

    async def _serve(self, client: SocketStream) -> None:
        async with client, self._limiter:
            with contextlib.suppress(*_BROKEN):
                try:
                    with anyio.fail_after(_SECONDS):
                        head, more = await _head(client)
                        request = _request(head)
                        host = await self._connected(request)
                except TimeoutError:
                    await _answer(client, http.HTTPStatus.GATEWAY_TIMEOUT, "It took too long.")
                except _RefusedError as refusal:
                    await _answer(client, refusal.status, str(refusal))
                else:
                    async with host:
                        if request.passed_on:
                            await host.send(request.passed_on)
                        else:
                            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        if more:
                            await host.send(more)
                        async with anyio.create_task_group() as group:
                            group.start_soon(_copy, client, host)
                            group.start_soon(_copy, host, client)

    async def _connected(self, request: _Request) -> SocketStream:
        host, port = request.host, request.port
        if not matches(host, self._domains) or port not in self._ports:
            raise _RefusedError(
                http.HTTPStatus.FORBIDDEN,
                f"{host[:100]}:{port} may not be asked: tools.script_network lists"
                f" {', '.join(self._domains)}, at the ports"
                f" {' and '.join(map(str, self._ports))}.",
            )
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise _RefusedError(http.HTTPStatus.BAD_GATEWAY, f"There is no host {host[:100]}.")
        if host not in self._private_hosts and not all(map(is_public, addresses)):
            raise _RefusedError(
                http.HTTPStatus.FORBIDDEN, f"{host[:100]} is not a host of the public network."
            )
        try:
            return await anyio.connect_tcp(addresses[0], port)
        except OSError as error:
            raise _RefusedError(
                http.HTTPStatus.BAD_GATEWAY, f"{host[:100]}:{port} cannot be reached."
            ) from error


async def _head(client: ByteStream) -> tuple[bytes, bytes]:
    """A request's head, with the empty line at its end, and what came behind it."""
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0 and len(received) <= _HEAD_BYTES:
        received += await client.receive()
    if not 0 <= end <= _HEAD_BYTES:
        raise _RefusedError(
            http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request's head is too long."
        )
    return received[: end + 4], received[end + 4 :]


def _request(head: bytes) -> _Request:
    """What a head asks for.

    Raises:
        _RefusedError: it is none that a proxy serves.
    """
    line, _, headers = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            url = urlsplit(f"//{target}")
            port = url.port
        else:
            url = urlsplit(target)
            port = url.port or 80
        if not url.hostname or port is None or "@" in url.netloc or not version.startswith("HTTP/"):
            raise ValueError("it has no host")
        if method != "CONNECT" and url.scheme != "http":
            raise ValueError("it is for https without a tunnel")
    except ValueError as error:
        raise _RefusedError(
            http.HTTPStatus.BAD_REQUEST, f"No request for a proxy: {error}."
        ) from error
    host = url.hostname.rstrip(".").lower()
    if method == "CONNECT":
        return _Request(host, port, b"")
    place = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [
        each
        for each in headers.split(b"\r\n")
        if each and each.partition(b":")[0].strip().lower() not in (*_OWN_HEADERS, b"host")
    ]
    lines = [f"{method} {place} HTTP/1.1".encode(), f"Host: {url.netloc}".encode(), *kept]
    return _Request(host, port, b"\r\n".join((*lines, b"Connection: close", b"", b"")))


async def _answer(client: ByteStream, status: http.HTTPStatus, words: str) -> None:
    body = f"{words}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    await client.send(head.encode() + body)


async def _copy(source: ByteStream, target: ByteStream) -> None:
    """Copy one direction to its end, and end it on the other side."""
    with contextlib.suppress(*_BROKEN):
        async for piece in source:
            await target.send(piece)
        await target.send_eof()
