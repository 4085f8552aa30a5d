"""One bounded request for JSON, of a server that may be anything at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

_NO_JSON = object()


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, as far as it was read."""

    status: int
    headers: Mapping[str, str]
    body: Any
    """What the JSON says; None where it is none."""
    is_json: bool

    @property
    def media_type(self) -> str:
        """Of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


async def fetch_json(
    client: httpx2.AsyncClient,
    url: str,
    *,
    most_bytes: int,
    headers: Mapping[str, str] | None = None,
    post: Mapping[str, Any] | None = None,
) -> Fetched:
    """Ask for JSON. A body that is longer than allowed, or no JSON, counts as none.

    Args:
        client: follows no redirects.
        url: what is asked.
        most_bytes: how much of the body is read.
        headers: sent beside the client's own.
        post: sent as JSON; None: a plain GET.

    Raises:
        httpx2.HTTPError, httpx2.InvalidURL: it cannot be asked.
    """
    method = "GET" if post is None else "POST"
    # Nothing is unpacked: a small body could become a large one.
    sent = {"Accept-Encoding": "identity", **(headers or {})}
    async with client.stream(method, url, headers=sent, json=post) as response:
        raw = b""
        async for piece in response.aiter_raw():
            raw += piece
            if len(raw) > most_bytes:
                raw = b""
                break
        body = _read(raw)
        return Fetched(
            response.status_code,
            dict(response.headers),
            None if body is _NO_JSON else body,
            body is not _NO_JSON,
        )


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return _NO_JSON
