"""Fetching a model over HTTP, taking up a broken transfer where it ended.

The bytes go to ``http.bin``. ``http.json`` holds the address and the validator (``ETag``) of what
they are a part of: when the server has another file by now, the transfer begins again (RFC 9110,
sections 13.1.5 and 14). A broken connection is tried again while each attempt brings new bytes.
How long a server may keep us waiting is the `Patience` of the fetch; its name, too, is looked up
for no longer than that. Where a network swallows questions to its name servers, the system's
resolver hangs for half a minute, and cannot be interrupted: an event loop waits at its end for the
threads that it lent to such a question, ours are left behind.
"""

from __future__ import annotations

import io
import json
import re
import socket
import ssl
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio

from service.models.catalog import HttpSource
from service.models.fetch import Fetch, Patience, SourceFailed

if TYPE_CHECKING:
    import httpx2

_POLL_SECONDS = 0.02
_PORTS = {"http": 80, "https": 443}


async def look_up(url: str, seconds: float) -> None:
    """Have the system look up the host that a request connects to: that of `url`, or a proxy.

    Raises:
        SourceFailed: nobody knows it, or there is no answer within `seconds`.
    """
    host, port = _first_hop(url)
    failures: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failures.append(error)

    thread = threading.Thread(target=ask, name=f"look up {host}", daemon=True)
    thread.start()
    with anyio.move_on_after(seconds):
        while thread.is_alive():  # noqa: ASYNC110 - a thread has nothing to await
            await anyio.sleep(_POLL_SECONDS)
    if thread.is_alive():
        raise SourceFailed(f"{host} is not found within {seconds:g} s", was_slow=True)
    if failures:
        words = getattr(failures[0], "strerror", None) or failures[0]
        raise SourceFailed(f"the server cannot be reached ({host}: {words})")


def _first_hop(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return host, port
    way = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return way.hostname or host, way.port or port


_CANCEL_POLL_SECONDS = 0.1


def fetch_http(source: HttpSource, fetch: Fetch) -> Path:
    """Download the file into the work folder, behind what is there already.

    Raises:
        SourceFailed: the server cannot be reached, refuses, is too slow, or has another file.
        PullCancelledError: the pull was cancelled.
    """
    return anyio.run(_fetch, source, fetch)


async def _fetch(source: HttpSource, fetch: Fetch) -> Path:
    outcome: Path | Exception | None = None
    # A read that waits for the network cannot look at the flag, so a task beside it does.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, fetch, tasks.cancel_scope)
        try:
            outcome = await _attempts(source, fetch)
        except Exception as error:  # noqa: BLE001 - raised below: a task group would wrap it
            outcome = error
        tasks.cancel_scope.cancel()
    if isinstance(outcome, Exception):
        raise outcome
    if outcome is None:
        fetch.check()
        raise SourceFailed("the transfer was interrupted")
    return outcome


async def _watch(fetch: Fetch, scope: anyio.CancelScope) -> None:
    while not fetch.cancelled():  # noqa: ASYNC110 - the flag belongs to another thread
        await anyio.sleep(_CANCEL_POLL_SECONDS)
    scope.cancel()


async def _attempts(source: HttpSource, fetch: Fetch) -> Path:
    import httpx2

    transfer = _Transfer(source, fetch)
    if transfer.size:
        fetch.report(transfer.size)
    first, fruitless, was_slow = transfer.size, 0, False
    async with _client(source, fetch.patience) as client:
        while transfer.size < fetch.model.size:
            before = transfer.size
            reason = "the server ended the transfer early"
            try:
                await transfer.attempt(client)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                was_slow = isinstance(error, httpx2.ConnectTimeout)
                reason = f"the server cannot be reached ({_words(error)})"
                if before == first:
                    raise SourceFailed(reason, was_slow=was_slow) from error
            except httpx2.RequestError as error:
                was_slow = isinstance(error, httpx2.TimeoutException)
                reason = f"the connection broke ({_words(error)})"
            except (httpx2.InvalidURL, ssl.SSLError) as error:
                raise SourceFailed(_words(error)) from error
            fruitless = 0 if transfer.size > before else fruitless + 1
            if fruitless >= fetch.patience.attempts:
                raise SourceFailed(reason, was_slow=was_slow)
            await anyio.sleep(fruitless)
    return transfer.target


def _client(source: HttpSource, patience: Patience) -> httpx2.AsyncClient:
    import httpx2

    async def before_each_request(request: httpx2.Request) -> None:
        """Also those that follow a redirect: publishers hand large files on to other hosts."""
        if source.url.startswith("https:") and request.url.scheme != "https":
            raise SourceFailed(f"it redirects to {request.url.scheme}, which anybody could alter")
        await look_up(str(request.url), patience.reach)

    return httpx2.AsyncClient(
        follow_redirects=True,
        timeout=httpx2.Timeout(patience.silence, connect=patience.reach),
        event_hooks={"request": [before_each_request]},
    )


class _Transfer:
    """The file in the work folder, and what is known of the file on the server."""

    def __init__(self, source: HttpSource, fetch: Fetch) -> None:
        self._url = source.url
        self._fetch = fetch
        self._notes = fetch.folder / "http.json"
        self.target = fetch.folder / "http.bin"
        self._etag = self._noted()

    @property
    def size(self) -> int:
        """Bytes fetched so far."""
        return self.target.stat().st_size if self.target.exists() else 0

    async def attempt(self, client: httpx2.AsyncClient) -> None:
        """Make one request, and append what it brings."""
        have = self.size
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self._etag:
                headers["If-Range"] = self._etag
        async with AsyncExitStack() as stack:
            asked = client.stream("GET", self._url, headers=headers)
            seconds = self._fetch.patience.answer
            try:
                with anyio.fail_after(seconds):
                    response = await stack.enter_async_context(asked)
            except TimeoutError as error:
                raise SourceFailed(f"no answer within {seconds:g} s", was_slow=True) from error
            if response.status_code == 206 and _start(response) == have:
                await self._append(response, "ab", have)
            elif response.status_code == 200:
                self._begin(response)
                await self._append(response, "wb", 0)
            elif response.status_code in (206, 416):
                self.target.unlink(missing_ok=True)  # not a part of the same file
            elif response.status_code < 500 or self._fetch.patience.attempts == 1:
                raise SourceFailed(f"the server answered {response.status_code}")

    async def _append(self, response: httpx2.Response, mode: str, done: int) -> None:
        pace = _Pace(self._fetch.patience)
        with self.target.open(mode) as raw:
            writer: BinaryIO = raw  # type: ignore[assignment]
            async for block in response.aiter_bytes():
                done = self._fetch.copy(io.BytesIO(block), writer, done=done)
                pace.check(len(block))

    def _begin(self, response: httpx2.Response) -> None:
        length = response.headers.get("content-length", "")
        if length.isdigit() and int(length) != self._fetch.model.size:
            raise SourceFailed(
                f"the file there has {length} bytes, not {self._fetch.model.size}", wrong_hash=True
            )
        etag = response.headers.get("etag", "")
        self._etag = "" if etag.startswith("W/") else etag
        self._notes.write_text(json.dumps({"url": self._url, "etag": self._etag}), "utf-8")

    def _noted(self) -> str:
        try:
            note = json.loads(self._notes.read_text("utf-8"))
            if note["url"] == self._url:
                return str(note["etag"])
        except (OSError, ValueError, TypeError, KeyError):
            pass  # no note, or one that cannot be read: what is there belongs to nothing known
        self.target.unlink(missing_ok=True)
        return ""


class _Pace:
    """Whether bytes come fast enough, one stretch of time after the other."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._since = time.monotonic()
        self._bytes = 0

    def check(self, count: int) -> None:
        """So many more bytes came.

        Raises:
            SourceFailed: too few came in the last stretch.
        """
        self._bytes += count
        passed = time.monotonic() - self._since
        if passed < self._patience.pace_seconds:
            return
        if self._bytes < self._patience.least_bytes:
            words = f"it gave only {self._bytes:,} bytes in {passed:.0f} s"
            raise SourceFailed(words, was_slow=True)
        self._since, self._bytes = time.monotonic(), 0


def _start(response: httpx2.Response) -> int:
    match = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    return int(match[1]) if match else -1


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
