"""A web server that stands for a publisher, and can fail in the ways that servers fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from service.models.catalog import HttpSource
from tests.support.models.stores import WEIGHTS


class Web(ThreadingHTTPServer):
    """Serves `WEIGHTS` with ranges; notes what was asked for, and can break off or change."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.etag = '"one"'
        self.weights: bytes | memoryview = WEIGHTS
        self.holds_at = 100_000
        self.break_after: list[int] = []
        """How many bytes each of the next answers gives before it breaks off."""
        self.status = 200
        self.redirect_to = ""
        self.knows_ranges = True
        self.ranges: list[str | None] = []
        """The ``Range`` of each request so far."""
        self.stall = threading.Event()
        """While it is not set, nothing comes of the file behind its first `holds_at` bytes."""
        self.stall.set()
        self.going = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Nothing is said of clients that went away: that is what some tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tiny.gguf?token=secret"

    @property
    def source(self) -> HttpSource:
        return HttpSource(self.url)


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        byte_range = self.headers.get("Range")
        self.server.ranges.append(byte_range)
        if self.server.redirect_to:
            self.send_response(302)
            self.send_header("Location", self.server.redirect_to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        start = 0
        is_same = self.headers.get("If-Range", self.server.etag) == self.server.etag
        if byte_range and is_same and self.server.knows_ranges:
            start = int(byte_range.removeprefix("bytes=").rstrip("-"))
        self._send(start)

    def _send(self, start: int) -> None:
        body = self.server.weights[start:]
        self.send_response(206 if start else 200)
        if start:
            total = len(self.server.weights)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.send_header("ETag", self.server.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.break_after:
            body = body[: self.server.break_after.pop(0)]
        begin = max(0, self.server.holds_at - start)
        self.wfile.write(body[:begin])
        self.wfile.flush()
        while not self.server.stall.wait(0.05):
            if self.server.going.is_set():
                return
        self.wfile.write(body[begin:])

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def web_server() -> Iterator[Web]:
    """A server on a free port of this machine."""
    server = Web()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.going.set()
        server.shutdown()
        server.server_close()
        thread.join()
