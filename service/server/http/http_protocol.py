"""HTTP/1.1 on one connection, with bounds on bytes and time: uvicorn's own has none on headers.

Everything here happens before anybody has shown a token. A request that comes too slowly, or is
too long, is answered in words where that is still possible, and its connection closed.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Literal

import httptools
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from service.server.http.connection_limits import Limits
from service.server.problems import RequestError

log = logging.getLogger(__name__)

LAST_WORDS = "rondo.last_words"
"""The key in a scope's ``extensions`` of a dictionary; what stands in it as ``chunk`` is sent as
the last piece of a streamed answer whose reader is cut off."""
SURPLUS = "surplus"
"""In a request's state: its connection is one too many."""

_SLICE = 16_384
"""Bytes that are parsed before the bounds are looked at again."""

Phase = Literal["head", "body", "work", "drain", "between", "leaving"]
"""What a connection waits for: the headers of a request; the rest of a body, while its request is
at work; the answer; the rest of a body that was answered already; the next request; the client to
take the last bytes and to close."""

Silent = dict["BoundedProtocol", None]
"""Connections on which no request is at work, those that have been so the longest first."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection. `check` is to be called about every second."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        limits: Limits,
        silent: Silent,
        surplus: bool = False,
    ) -> None:
        """`surplus`: there are too many already; requests are told by their state."""
        super().__init__(config, server_state, {**app_state, SURPLUS: surplus})
        self._limits = limits
        self._silent = silent
        self._phase: Phase = "between"
        self._deadline: float | None = None
        self._in_head = self._in_body = False
        self._head_bytes = self._header_count = self._unheard = self._dropped = 0
        self._heard = False
        self._refusal: RequestError | None = None
        self._backlog = 0
        self._progress_at = 0.0
        self._last_words: dict[object, object] = {}

    # --- asyncio's side

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self._silent.pop(self, None)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Parse what came, a slice at a time."""
        if self._phase == "leaving":
            self._dropped += len(data)
            if self._dropped > self._limits.linger_bytes:
                self.transport.abort()
            return
        for start in range(0, len(data), _SLICE):
            if not self._parse(data[start : start + _SLICE]):
                return
        self._settle()

    def _parse(self, piece: bytes) -> bool:
        """Whether the connection goes on."""
        self._heard = False
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # It is answered as any other request; what follows would be of another protocol.
            self.cycle.keep_alive = False
            return True
        except httptools.HttpParserError:
            self._refuse(self._refusal or _NOT_HTTP)
            return False
        # The parser keeps what it has not understood yet, however long that is.
        self._unheard = 0 if self._heard else self._unheard + len(piece)
        if self._unheard > self._limits.header_bytes:
            self._refuse(_too_long(self._limits) if self._in_head else _NOT_HTTP)
            return False
        return True

    # --- the parser's side

    def on_message_begin(self) -> None:
        """A request begins."""
        self._unset_keepalive_if_required()
        super().on_message_begin()
        self._in_head, self._heard = True, True
        self._head_bytes = self._header_count = 0

    def on_url(self, url: bytes) -> None:
        """A piece of its address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._header_count += 1
        if self._header_count > self._limits.header_count:
            self._give_up(_too_long(self._limits))
        if len(name) + len(value) > self._limits.header_bytes:
            self._give_up(_too_long(self._limits))
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request is told to the app."""
        self._in_head, self._in_body, self._heard = False, True, True
        if len(self.pipeline) >= self._limits.pipelined:
            self._give_up(_NOT_HTTP)
        self._last_words = {}
        self.scope["extensions"] = {LAST_WORDS: self._last_words}
        super().on_headers_complete()
        self.cycle.transport = _Outlet(self)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._heard = True
        if self._phase == "body" and self._deadline is not None:
            later = self._deadline + len(body) / self._limits.body_bytes_per_second
            self._deadline = min(later, self.loop.time() + self._limits.body_seconds)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._in_body, self._heard = False, True
        super().on_message_complete()

    def _count(self, length: int) -> None:
        self._heard = True
        self._head_bytes += length
        if self._head_bytes > self._limits.head_bytes:
            self._give_up(_too_long(self._limits))

    def _give_up(self, error: RequestError) -> None:
        """End the parsing; the parser wraps whatever its callbacks raise."""
        self._refusal = error
        raise ValueError(error.problem.title)

    # --- the answer's side

    def on_response_complete(self) -> None:
        """An answer was sent as far as it goes."""
        if self._phase != "leaving":
            super().on_response_complete()
            self._settle()

    def resume_writing(self) -> None:
        """The client has taken most of what waited for it."""
        self._progress_at = self.loop.time()
        super().resume_writing()

    def finish(self) -> None:
        """Close once the answer is sent, also when the client has not sent all of its request.

        Closing with unread bytes would reset the connection: the client might never see the answer.
        """
        if self._in_body and not self.transport.is_closing():
            self._leave()
        else:
            self.transport.close()

    def _refuse(self, error: RequestError) -> None:
        """Say why, where nothing else was begun to be said, and close."""
        log.debug("a request was refused: %s", error.problem.title)
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and (self.cycle.response_started or self._in_head or self.pipeline):
            self.transport.abort()
            return
        self.transport.write(_raw(error.response()))
        self._give_back()
        self._leave()

    def _give_back(self) -> None:
        """Let the app know that nobody is there any more."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()

    def _leave(self) -> None:
        self._unset_keepalive_if_required()
        self._phase = "leaving"
        self._deadline = self.loop.time() + self._limits.linger_seconds
        self._silent[self] = self._silent.pop(self, None)
        self.flow.resume_reading()
        self.transport.write_eof()

    # --- time

    def _settle(self) -> None:
        """Tell what is waited for now, and until when."""
        phase = self._now()
        if phase == self._phase:
            return
        self._phase = phase
        seconds = {
            "head": self._limits.head_seconds,
            "body": self._limits.body_seconds,
            "drain": self._limits.linger_seconds,
        }.get(phase)
        self._deadline = None if seconds is None else self.loop.time() + seconds
        self._silent.pop(self, None)
        if phase not in ("work", "body"):
            self._silent[self] = None

    def _now(self) -> Phase:
        if self.cycle is not None and not self.cycle.response_complete:
            return "body" if self._in_body else "work"
        if self._in_head or self.cycle is None:
            return "head"
        return "drain" if self._in_body else "between"

    def check(self, now: float) -> None:
        """Cut off what has taken too long, by the event loop's clock."""
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0 or self._backlog == 0 or waiting < self._backlog:
            self._progress_at = now
        elif now - self._progress_at > self._limits.stall_seconds:
            self._cut(now)
            waiting = self.transport.get_write_buffer_size()
        self._backlog = waiting
        if self._deadline is None or now <= self._deadline:
            return
        if self._phase == "leaving" and waiting:
            return  # the client still reads: `_cut` has an eye on that
        if self._phase == "body" and self.flow.read_paused:
            self._deadline = now + self._limits.body_seconds  # it is us who do not read on
        elif self._phase in ("head", "body"):
            self._refuse(_too_slow(self._phase))
        else:
            self.transport.abort()

    def _cut(self, now: float) -> None:
        """The client does not read: say so, in case that it ever does, and let it go."""
        chunk = self._last_words.get("chunk")
        if self._phase == "leaving" or self.transport.is_closing() or not isinstance(chunk, bytes):
            log.debug("a client that did not read its answer was cut off")
            self.transport.abort()
            return
        log.info("a stream whose reader fell too far behind was cut off; it can be resumed")
        self.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunk), chunk))
        self._progress_at = now
        self._give_back()
        self._leave()


class _Outlet:
    """The transport as an answer uses it: closing it waits for the client to have read."""

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        self._protocol.transport.write(data)

    def is_closing(self) -> bool:
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        self._protocol.finish()


_NOT_HTTP = RequestError(
    400,
    "malformed-request",
    title="This is not an HTTP request",
    advice="Send HTTP/1.1, not encrypted, and one request after the other.",
)


def _too_long(limits: Limits) -> RequestError:
    return RequestError(
        431,
        "headers-too-large",
        title="The headers are too large",
        detail=f"at most {limits.header_count} headers of {limits.header_bytes:,} bytes are taken,"
        f" and {limits.head_bytes:,} bytes together with the address",
        advice="Send less in headers and in the address; what is long belongs into the body.",
    )


def _too_slow(phase: Phase) -> RequestError:
    return RequestError(
        408,
        "too-slow",
        title="The request did not come in time",
        detail="its headers were not complete" if phase == "head" else "its body was not complete",
        advice="Send it again, at once.",
    )


def _raw(response: Response) -> bytes:
    """A whole answer as bytes; the connection closes after it."""
    lines = [b"HTTP/1.1 %d %b" % (response.status_code, _phrase(response.status_code))]
    lines += [b"%b: %b" % header for header in response.raw_headers]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(response.body)])


def _phrase(status: int) -> bytes:
    return HTTPStatus(status).phrase.encode()
