"""Answers of endpoints that embed and rerank, which come to an end: in bytes, and in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx2

MOST_BYTES = 64 * 2**20
"""Of one answer, decoded: a batch of embeddings has six million at most."""

Refuse = Callable[[str], Exception]
"""Gives the error for an answer without an end, from words that say what it did."""


def bounding(refuse: Refuse) -> Callable[[httpx2.Response], None]:
    """A hook for the responses of an HTTP client, which gives each a bounded body.

    It must be there within the time that the client waits for a single piece of it: else an
    endpoint that sends a byte now and then would be waited for without an end.
    """

    def bound(response: httpx2.Response) -> None:
        body = response.stream
        if not isinstance(body, httpx2.SyncByteStream):
            return
        if "content-encoding" in response.headers:
            body = _Decoded(body, response.headers["content-encoding"])
            del response.headers["content-encoding"]
        seconds = response.request.extensions.get("timeout", {}).get("read")
        response.stream = _Bounded(body, seconds or float("inf"), refuse)

    return bound


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, body: httpx2.SyncByteStream, seconds: float, refuse: Refuse) -> None:
        self._body = body
        self._seconds = seconds
        self._refuse = refuse

    def __iter__(self) -> Iterator[bytes]:
        left = MOST_BYTES
        deadline = time.monotonic() + self._seconds
        for chunk in self._body:
            left -= len(chunk)
            if left < 0:
                raise self._refuse(f"sent {MOST_BYTES:,} bytes and had not come to its end")
            if time.monotonic() > deadline:
                raise self._refuse(f"had not ended its answer after {self._seconds:g} s")
            yield chunk

    def close(self) -> None:
        self._body.close()


class _Decoded(httpx2.SyncByteStream):
    def __init__(self, body: httpx2.SyncByteStream, encoding: str) -> None:
        self._body = body
        self._encoding = encoding

    def __iter__(self) -> Iterator[bytes]:
        headers = {"content-encoding": self._encoding}
        return httpx2.Response(200, headers=headers, stream=self._body).iter_bytes()

    def close(self) -> None:
        self._body.close()
