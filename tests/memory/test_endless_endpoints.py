"""Endpoints that embed and rerank are listened to only so long."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from service.domain.errors import EmbeddingError, RerankingError
from service.memory.embedders import bounded_bodies
from service.memory.embedders.openai_endpoint import QUERY_SECONDS, OpenAIEmbedder
from service.memory.rerankers.endpoint import EndpointReranker

MIB = 2**20
ON_THE_WAY = 24 * MIB
"""What the buffers of both sockets hold at most."""

Send = Callable[[bytes], None]


@contextmanager
def pouring(
    pour: Callable[[Send, threading.Event], None], status: int, encoding: str = ""
) -> Iterator[tuple[str, list[int]]]:
    """An endpoint whose bodies are poured so; yields its address and how much each call took."""
    taken: list[int] = []
    gone = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            taken.append(0)
            self.send_response(status)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            try:
                pour(self._send, gone)
            except OSError:
                gone.set()

        def _send(self, data: bytes) -> None:
            self.wfile.write(data)
            taken[-1] += len(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", taken
    finally:
        gone.set()
        server.shutdown()
        thread.join()
        server.server_close()


def embed(url: str, query_seconds: float = QUERY_SECONDS) -> None:
    OpenAIEmbedder("m", base_url=url, query_seconds=query_seconds).embed_queries(["a"])


def rerank(url: str) -> None:
    EndpointReranker("m", base_url=url, timeout_seconds=5).scores("q", ["a"])


BOTH = pytest.mark.parametrize("ask", [embed, rerank])


def without_end(send: Send, gone: threading.Event) -> None:
    while not gone.is_set():
        send(b" " * MIB)


def dripping(send: Send, gone: threading.Event) -> None:
    while not gone.wait(0.02):
        send(b" ")


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_without_an_end_is_broken_off(ask: Callable[[str], None], status: int) -> None:
    with (
        pouring(without_end, status) as (url, taken),
        pytest.raises((EmbeddingError, RerankingError), match="not come to its end") as raised,
    ):
        ask(url)
    assert "base_url" in raised.value.advice.lower()
    assert len(taken) == 1
    assert taken[0] < bounded_bodies.MOST_BYTES + ON_THE_WAY


@pytest.mark.slow
@BOTH
def test_what_a_small_answer_blows_up_to_is_counted(ask: Callable[[str], None]) -> None:
    bomb = gzip.compress(gzip.compress(bytes(128 * MIB)))

    with (
        pouring(lambda send, gone: send(bomb), 200, "gzip, gzip") as (url, _),
        pytest.raises((EmbeddingError, RerankingError), match="not come to its end"),
    ):
        ask(url)


@pytest.mark.slow
def test_an_answer_that_drips_is_broken_off() -> None:
    with (
        pouring(dripping, 200) as (url, _),
        pytest.raises(EmbeddingError, match=r"not ended its answer after 0.5 s"),
    ):
        embed(url, query_seconds=0.5)
    with (
        pouring(dripping, 200) as (url, _),
        pytest.raises(RerankingError, match=r"not ended its answer after 0.5 s"),
    ):
        EndpointReranker("m", base_url=url, timeout_seconds=0.5).scores("q", ["a"])
