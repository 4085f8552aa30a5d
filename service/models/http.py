"""Fetching a model over HTTP, taking up a broken transfer where it ended.

The bytes go to ``http.bin``. ``http.json`` holds the address and the validator (``ETag``) of what
they are a part of: when the server has another file by now, the transfer begins again (RFC 9110,
sections 13.1.5 and 14). A broken connection is tried again while each attempt brings new bytes.
"""

from __future__ import annotations

import io
import json
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio

from service.models.catalog import HttpSource
from service.models.errors import SourceFailed
from service.models.fetch import Fetch

if TYPE_CHECKING:
    import httpx2

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
_FRUITLESS_ATTEMPTS = 3
_CANCEL_POLL_SECONDS = 0.1


def fetch_http(source: HttpSource, fetch: Fetch) -> Path:
    """Download the file into the work folder, behind what is there already.

    Raises:
        SourceFailed: the server cannot be reached, refuses, or has another file.
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
    fruitless = 0
    timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    async with httpx2.AsyncClient(follow_redirects=True, timeout=timeout) as client:
        while transfer.size < fetch.model.size:
            before = transfer.size
            reason = "the server ended the transfer early"
            try:
                await transfer.attempt(client)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                raise SourceFailed(f"the server cannot be reached ({_words(error)})") from error
            except httpx2.RequestError as error:
                reason = f"the connection broke ({_words(error)})"
            except (httpx2.InvalidURL, ssl.SSLError) as error:
                raise SourceFailed(_words(error)) from error
            fruitless = 0 if transfer.size > before else fruitless + 1
            if fruitless == _FRUITLESS_ATTEMPTS:
                raise SourceFailed(reason)
            await anyio.sleep(fruitless)
    return transfer.target


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
        async with client.stream("GET", self._url, headers=headers) as response:
            if response.status_code == 206 and _start(response) == have:
                await self._append(response, "ab", have)
            elif response.status_code == 200:
                self._begin(response)
                await self._append(response, "wb", 0)
            elif response.status_code in (206, 416):
                self.target.unlink(missing_ok=True)  # not a part of the same file
            elif response.status_code < 500:
                raise SourceFailed(f"the server answered {response.status_code}")

    async def _append(self, response: httpx2.Response, mode: str, done: int) -> None:
        with self.target.open(mode) as raw:
            writer: BinaryIO = raw  # type: ignore[assignment]
            async for block in response.aiter_bytes():
                done = self._fetch.copy(io.BytesIO(block), writer, done=done)

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


def _start(response: httpx2.Response) -> int:
    match = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    return int(match[1]) if match else -1


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
