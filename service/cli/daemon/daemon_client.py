"""The daemon as the commands see it: its HTTP routes as methods, its problems as errors in words.

The token travels in a header only, never in an address.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import httpx2

from service.cli.daemon.daemon_errors import (
    ConnectionLostError,
    DaemonNotRunningError,
    NotTheDaemonError,
    RefusedError,
    TokenRefusedError,
)
from service.cli.daemon.stream_items import END, Accepted, SeenEvent, content, is_rest, read
from service.cli.daemon.stream_items import Json as Json  # what `get` and `post` give
from service.cli.daemon.token_auth import TokenAuth, read_token
from service.config import Settings
from service.domain.ids import new_id
from service.domain.messages import ImageUrlPart
from service.domain.run_loops import SendMode

_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 90.0  # streams have heartbeats: a longer silence is a dead connection
_BATCH_SECONDS = 600.0
_WORK_SECONDS = 3600.0

Params = Mapping[str, str | int | list[str]]
"""A query; a list is sent as its name several times."""
Broken = ConnectionLostError | DaemonNotRunningError
OnBreak = Callable[[Broken, int], None]
"""Told why a stream broke, and the how many-th time in a row. It may wait, or raise to give up."""


class Daemon:
    """A connection to the daemon of these settings. Makes no request before it is asked to."""

    def __init__(self, settings: Settings, *, silence_seconds: float = _SILENCE_SECONDS) -> None:
        """Name the daemon.

        Args:
            settings: where it is, and its data folder with the token.
            silence_seconds: the longest that it may say nothing.
        """
        self._silence = silence_seconds
        self.url = base_url(settings)
        self.token_file = settings.data_dir / "token"
        self._http = httpx2.Client(
            base_url=self.url,
            auth=TokenAuth(self.token_file),
            timeout=httpx2.Timeout(silence_seconds, connect=_CONNECT_SECONDS),
            trust_env=False,  # a proxy of the environment has no business with our own daemon
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    # --- plain requests

    def get(self, path: str, params: Params | None = None) -> Json:
        """Ask for a JSON object.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Json | None = None, *, takes_long: bool = False) -> Json:
        """Post a JSON object and get one back.

        Args:
            path: where.
            body: the object.
            takes_long: whether the daemon may be at work for many minutes before it answers.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        seconds = _WORK_SECONDS if takes_long else None
        return self._ask("POST", path, body=body, seconds=seconds)

    def delete(self, path: str, params: Params | None = None) -> Json:
        """Have something deleted; what it was.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        return self._ask("DELETE", path, params=params)

    def upload(
        self, path: str, chunks: Iterable[bytes], *, media_type: str, params: Params | None = None
    ) -> Json:
        """Post a body of any length while it is being made; the JSON object that is the answer.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        with self._told():
            # The last batch may wait for a disk that others use, too.
            response = self._http.post(
                path,
                params=params,
                content=chunks,
                headers={"Content-Type": media_type},
                timeout=httpx2.Timeout(_BATCH_SECONDS, connect=_CONNECT_SECONDS),
            )
        self._check(response)
        return self._object(response)

    @contextmanager
    def download(self, path: str, params: Params | None = None) -> Iterator[httpx2.Response]:
        """An answer of any length, to be read within ``with``; it ends early only with an error.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        with self._told(), self._http.stream("GET", path, params=params) as response:
            if not response.is_success:
                response.read()
            self._check(response)
            yield response

    def readiness(self) -> Json:
        """What ``/readyz`` says, ready or not. Needs no token.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        with self._told():
            response = self._http.get("/readyz", auth=None)
        if response.status_code not in (200, 503):
            raise self._stranger()
        readiness = self._object(response)
        if "ready" not in readiness:
            raise self._stranger()
        return readiness

    def _ask(
        self,
        method: Literal["GET", "POST", "DELETE"],
        path: str,
        *,
        params: Params | None = None,
        body: Json | None = None,
        seconds: float | None = None,
    ) -> Json:
        timeout = httpx2.Timeout(seconds or self._silence, connect=_CONNECT_SECONDS)
        with self._told():
            response = self._http.request(method, path, params=params, json=body, timeout=timeout)
        self._check(response)
        return self._object(response)

    # --- streams

    def send(
        self,
        text: str,
        *,
        run_loop_id: str | None = None,
        mode: SendMode = "steer",
        key: str | None = None,
        after: int = -1,
        images: Sequence[ImageUrlPart] = (),
        model: str | None = None,
        on_break: OnBreak | None = None,
    ) -> Generator[Accepted | SeenEvent]:
        """Send a message, and follow what becomes of it until its loop rests, ends or asks.

        A broken connection is made anew with the same idempotency key: the message is accepted
        once, and no journaled event comes twice.

        Args:
            text: the message.
            run_loop_id: the loop that it belongs to; None: the daemon decides.
            mode: how it joins a loop that is at work.
            key: the idempotency key; of a message that was handed over before, to follow it now.
            after: leave out events up to this number.
            images: what goes with the words.
            model: the name of the model that answers; None: the loop's.
            on_break: called when the connection broke after the message was accepted; the request
                is made again when it returns. None: the error is raised.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        key = key or new_id()
        accepted, last, breaks = False, after, 0
        while True:
            try:
                for item in self._send(text, run_loop_id, mode, key, images, model):
                    breaks = 0
                    if isinstance(item, Accepted):
                        if accepted:
                            continue
                        accepted = True
                    elif item.seq is not None:
                        if item.seq <= last:
                            continue
                        last = item.seq
                    yield item
                    if isinstance(item, SeenEvent) and is_rest(item):
                        return
                raise ConnectionLostError("the daemon ended the stream before the answer was there")
            except (ConnectionLostError, DaemonNotRunningError) as error:
                if on_break is None or not accepted:
                    raise
                breaks += 1
                on_break(error, breaks)

    def hand_over(
        self,
        text: str,
        *,
        run_loop_id: str | None,
        mode: SendMode,
        key: str,
        model: str | None = None,
    ) -> Accepted:
        """Send a message and leave as soon as it is safe; its loop goes on with it.

        Args:
            text: the message.
            run_loop_id: the loop that it belongs to; None: the daemon decides.
            mode: how it joins a loop that is at work.
            key: the idempotency key, by which `send` can follow it later.
            model: the name of the model that answers; None: the loop's.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        with closing(self._send(text, run_loop_id, mode, key, model=model)) as items:
            for item in items:
                if isinstance(item, Accepted):
                    return item
        raise ConnectionLostError("the daemon ended the stream before the message was safe")

    def events(
        self,
        run_loop_id: str | None = None,
        *,
        after: int | None = None,
        on_break: OnBreak | None = None,
    ) -> Generator[SeenEvent]:
        """Events of one loop or of all active ones, for as long as they are read.

        Args:
            run_loop_id: one loop; None for all.
            after: begin behind this sequence number; None: where the daemon begins.
            on_break: called when the connection broke after it stood; the stream is taken up
                again, without gap or repeat, when it returns. None: the error is raised.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        path = "/v1/events" if run_loop_id is None else f"{loop_path(run_loop_id)}/events"
        stood, breaks, newest = False, 0, ""

        def on_open() -> None:
            nonlocal stood, breaks
            stood, breaks = True, 0

        while True:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            try:
                for item in self._stream("GET", path, headers=headers, on_open=on_open):
                    if isinstance(item, SeenEvent):
                        if item.seq is not None:
                            after = item.seq
                        yield item
                        newest = item.type
                if run_loop_id is not None and newest in END:
                    return  # one that was taken up again has had an end before
                raise ConnectionLostError("the daemon ended the stream")
            except _NothingMoreComes:
                return
            except (ConnectionLostError, DaemonNotRunningError) as error:
                if on_break is None or not stood:
                    raise
                breaks += 1
                on_break(error, breaks)

    def _send(
        self,
        text: str,
        run_loop_id: str | None,
        mode: SendMode,
        key: str,
        images: Sequence[ImageUrlPart] = (),
        model: str | None = None,
    ) -> Generator[Accepted | SeenEvent]:
        body: Json = {"message": content(text, images), "mode": mode}
        if run_loop_id is not None:
            body["run_loop_id"] = run_loop_id
        if model is not None:
            body["model"] = model
        return self._stream("POST", "/v1/send", headers={"Idempotency-Key": key}, body=body)

    def _stream(
        self,
        method: Literal["GET", "POST"],
        path: str,
        *,
        headers: Mapping[str, str],
        body: Json | None = None,
        on_open: Callable[[], None] = lambda: None,
    ) -> Generator[Accepted | SeenEvent]:
        headers = {"Accept": "text/event-stream", **headers}
        with (
            self._told(),
            self._http.stream(method, path, headers=headers, json=body) as response,
        ):
            if not response.is_success:
                response.read()
            self._check(response)
            if response.status_code == 204:
                raise _NothingMoreComes
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise self._stranger()
            on_open()
            # An event may hold a tool's whole result: the daemon bounds it, not its reader.
            for event in httpx2.EventSource(response, max_event_size=None):
                if event.data:  # without any it is none, by the standard
                    yield read(event.event, event.data)

    # --- errors

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell what httpx raises in Rondo's own words."""
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise DaemonNotRunningError(
                f"nothing answers at {self.url}",
                advice="Start it in another terminal with `rondo serve` (or `make run`). If it "
                "listens elsewhere, set RONDO_SERVER__PORT.",
            ) from error
        except httpx2.RemoteProtocolError as error:
            if "incomplete" in str(error) or "without sending" in str(error):
                raise self._lost(error) from error
            raise self._stranger() from error
        except httpx2.TransportError as error:
            raise self._lost(error) from error

    def _lost(self, error: httpx2.TransportError) -> ConnectionLostError:
        return ConnectionLostError(
            f"{self.url}: {error or type(error).__name__}",
            advice="What was accepted is safe, and goes on without you. See `rondo loops`, and "
            "`rondo doctor` when it happens again.",
        )

    def _stranger(self) -> NotTheDaemonError:
        return NotTheDaemonError(
            f"what answers at {self.url} does not speak as Rondo does",
            advice="Choose another port for both `rondo serve` and this command: "
            "set RONDO_SERVER__PORT, or server.port in rondo.toml.",
        )

    def _check(self, response: httpx2.Response) -> None:
        if response.is_success:
            return
        if response.headers.get("content-type", "").split(";")[0] != "application/problem+json":
            raise self._stranger()
        problem = self._object(response)
        if response.status_code == 401:
            raise self._refused_token()
        raise RefusedError(
            response.status_code,
            *(str(problem.get(name) or "") for name in ("title", "detail", "advice")),
        )

    def _refused_token(self) -> TokenRefusedError:
        has_token = read_token(self.token_file) is not None
        found = "is not its token" if has_token else "does not exist or cannot be read"
        return TokenRefusedError(
            f"{self.token_file} {found}: the daemon at {self.url} has another data folder",
            advice="Set RONDO_DATA_DIR to the data folder that the daemon was started with.",
        )

    def _object(self, response: httpx2.Response) -> Json:
        try:
            value = response.json()
        except ValueError as error:
            raise self._stranger() from error
        if not isinstance(value, dict):
            raise self._stranger()
        return value


def loop_path(run_loop_id: str) -> str:
    """The route of a run loop, whatever characters its id has."""
    return f"/v1/run-loops/{quote(run_loop_id, safe='')}"


def base_url(settings: Settings) -> str:
    """Where the daemon of these settings is reached from this machine."""
    host = settings.server.host
    if host in ("0.0.0.0", "", "*"):
        host = "127.0.0.1"
    elif host == "::":
        host = "::1"
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}"


class _NothingMoreComes(Exception):
    """The run loop has ended, and all its events were seen."""
