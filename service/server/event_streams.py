"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

Of our own: FastAPI's and sse-starlette's streams know no last frame for a reader that is cut off or
for an error, and beat also while events flow. The latter replaces a method of uvicorn's server, and
looks twice a second whether that stops. So is the work for a client for as long as it is there and
the daemon runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Literal

import anyio
from pydantic import JsonValue
from starlette.datastructures import Headers
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.domain.errors import InvalidInputError, Problem, RondoError
from service.domain.history.events import ErrorOccurred, Event
from service.server.http.http_protocol import LAST_WORDS

log = logging.getLogger(__name__)

Ending = Literal["done", "client_gone", "stopping"]
_HEARTBEAT = b": heartbeat\n\n"
_FAREWELL_SECONDS = 1.0
# No line ends of this format, but of many a client that splits lines as Python does.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
_TOO_SLOW = Problem(
    kind="slow-reader",
    title="This stream was not read in time",
    detail="more events waited for its reader than are kept",
    advice="Connect again with the header Last-Event-ID: what was missed comes first.",
)


async def run_until_disconnect(
    work: Callable[[], Awaitable[None]], *, receive: Receive, closing: anyio.Event
) -> Ending:
    """Run `work` until it is done, the client goes away, or the daemon stops.

    What `work` raises is raised here. The body of the request must have been read before.
    """
    ending: Ending = "done"
    failure: Exception | None = None

    async with anyio.create_task_group() as group:

        def end(how: Ending) -> None:
            nonlocal ending
            ending = how
            group.cancel_scope.cancel()

        async def watch_client() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            end("client_gone")

        async def watch_daemon() -> None:
            await closing.wait()
            end("stopping")

        group.start_soon(watch_client)
        group.start_soon(watch_daemon)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group that wraps it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return ending


def accepts_stream(headers: Headers) -> bool:
    """Whether a client asks for an event stream (https://www.rfc-editor.org/rfc/rfc9110#name-accept).

    >>> [accepts_stream(Headers({"accept": f"text/event-stream;q={q}"})) for q in ("0", "0.5")]
    [False, True]
    """
    for entry in ",".join(headers.getlist("accept")).lower().split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        weights = [part for part in parameters if part.startswith("q=")]
        if kind == "text/event-stream" and not any(_is_zero(weight[2:]) for weight in weights):
            return True
    return False


def _is_zero(weight: str) -> bool:
    try:
        return float(weight) == 0
    except ValueError:
        return False


def frame(event: str, data: JsonValue, *, seq: int | None = None) -> bytes:
    """One event as bytes; `seq` becomes its id, by which a client resumes.

    >>> frame("tick", {"词": 1}, seq=7).decode()
    'event: tick\\nid: 7\\ndata: {"词":1}\\n\\n'
    """
    head = f"event: {event}\n" + ("" if seq is None else f"id: {seq}\n")
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    body = body.translate(_LINE_ENDS)
    # A streamed delta may end in half a surrogate pair: as an escape it is JSON still.
    return f"{head}data: {body}\n\n".encode("utf-8", errors="backslashreplace")


class _Frames:
    """The newest frames, so that an event is written once for all who watch."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._made: dict[int, tuple[Event, bytes]] = {}

    def of(self, event: Event) -> bytes:
        """The frame of this very event: one that was read from the journal anew is another."""
        cached = self._made.get(id(event))
        if cached is not None:  # the event is held, so that no other one can have its id
            return cached[1]
        made = frame(event.type, event.wire(), seq=event.seq)
        self._made[id(event)] = event, made
        self._bytes += len(made)
        while self._bytes > self._most_bytes:
            _, gone = self._made.pop(next(iter(self._made)))
            self._bytes -= len(gone)
        return made


_frames = _Frames(most_bytes=4_000_000)


def event_frame(event: Event) -> bytes:
    """A run loop's event as bytes."""
    return _frames.of(event)


async def event_frames(
    events: AsyncGenerator[Event, None], *, until: Callable[[Event], bool] = lambda event: False
) -> AsyncGenerator[bytes, None]:
    """Events as frames, up to and with the first one that `until` holds for."""
    async with aclosing(events):
        async for event in events:
            yield event_frame(event)
            if until(event):
                return


def place(last_event_id: str | None, after: int | None) -> int | None:
    """Where a client wants to go on: its ``Last-Event-ID``, else ``?after=``; None for neither.

    Raises:
        InvalidInputError: the header is not a sequence number.
    """
    if last_event_id is None or last_event_id == "":
        return after
    # The header comes first: a browser that reconnects repeats the address as it was.
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 19):
        raise InvalidInputError(
            "the Last-Event-ID header is not a number",
            advice="Send the id of the last event that you have seen.",
        )
    return int(last_event_id)


class EventStream(StreamingResponse):
    """Streams frames until they end, the client goes away, or the daemon stops."""

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        *,
        closing: anyio.Event,
        heartbeat_seconds: float,
        headers: Mapping[str, str] | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Name what is sent.

        Args:
            frames: in their order.
            closing: set when the daemon stops.
            heartbeat_seconds: after how long a silence a comment is sent, by which a client knows
                that the connection lives.
            headers: beside those of every stream.
            on_end: called once, however it ends.
        """
        super().__init__(
            frames,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})},
        )
        self._frames = frames
        self._closing = closing
        self._heartbeat = heartbeat_seconds
        self._on_end = on_end
        self._sending = anyio.Lock()
        self._sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, then each frame as it comes."""
        last_words = scope.get("extensions", {}).get(LAST_WORDS)
        if last_words is not None:
            last_words["chunk"] = _told(_TOO_SLOW)
        try:
            await self._stream(receive, send)
        finally:
            self._on_end()

    async def _stream(self, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})

        async def work() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(self._beat, send)
                await self._pump(send)
                group.cancel_scope.cancel()

        if (
            await run_until_disconnect(work, receive=receive, closing=self._closing)
            == "client_gone"
        ):
            return
        with anyio.move_on_after(_FAREWELL_SECONDS):  # a client that does not read keeps nobody
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._frames) as frames:
            try:
                async for chunk in frames:
                    await self._write(send, chunk)
            except RondoError as error:
                log.error("an event stream broke off: %s", error)
                await self._write(send, _told(error.problem()))

    async def _beat(self, send: Send) -> None:
        while True:
            before = self._sent
            await anyio.sleep(self._heartbeat)
            if self._sent == before:
                await self._write(send, _HEARTBEAT)

    async def _write(self, send: Send, chunk: bytes) -> None:
        async with self._sending:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._sent += 1


def _told(problem: Problem) -> bytes:
    """What ends a stream early, as its last frame."""
    event = Event(
        seq=None,
        at=datetime.now(UTC),
        owner="",
        run_loop_id="",
        body=ErrorOccurred(problem=problem),
    )
    return frame(event.type, event.wire())
