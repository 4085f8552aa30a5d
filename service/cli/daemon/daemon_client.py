"""The daemon as the commands see it: messages and events, over connections that may break."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Literal

import httpx2

from service.cli.daemon.daemon_errors import ConnectionLostError, DaemonNotRunningError
from service.cli.daemon.daemon_requests import DaemonRequests, loop_path
from service.cli.daemon.stream_items import END, Json, SeenEvent, is_rest, read, sending
from service.cli.terminal.output import aside
from service.config import Settings, load_settings
from service.domain.conversation.messages import ImageUrlPart
from service.domain.ids import new_id
from service.domain.run_loops import SendMode
from service.wire.send_bodies import Accepted, FileContent

Broken = ConnectionLostError | DaemonNotRunningError
OnBreak = Callable[[Broken, int], None]
"""Told why a stream broke, and the how many-th time in a row. It may wait, or raise to give up."""


class Daemon(DaemonRequests):
    """A connection to the daemon of these settings. Makes no request before it is asked to."""

    def send(
        self,
        text: str,
        *,
        run_loop_id: str | None = None,
        mode: SendMode = "steer",
        key: str | None = None,
        after: int = -1,
        images: Sequence[ImageUrlPart] = (),
        files: Sequence[FileContent] = (),
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
            files: the same.
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
                for item in self._send(text, run_loop_id, mode, key, images, model, files):
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
        files: Sequence[FileContent] = (),
    ) -> Generator[Accepted | SeenEvent]:
        body = sending(text, images, files=files, run_loop_id=run_loop_id, mode=mode, model=model)
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
            self.translated_errors(),
            self.http.stream(method, path, headers=headers, json=body) as response,
        ):
            if not response.is_success:
                response.read()
            self.check(response)
            if response.status_code == 204:
                raise _NothingMoreComes
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise self.stranger()
            on_open()
            # An event may hold a tool's whole result: the daemon bounds it, not its reader.
            for event in httpx2.EventSource(response, max_event_size=None):
                if event.data:  # without any it is none, by the standard
                    yield read(event.event, event.data)


class _NothingMoreComes(Exception):
    """The run loop has ended, and all its events were seen."""


def connect(settings: Settings | None = None) -> Daemon:
    """The daemon of the effective settings. Makes no request yet.

    Raises:
        ConfigurationError: the settings cannot be read.
    """
    return Daemon(settings or load_settings())


def patiently(*, attempts: int | None = 6) -> OnBreak:
    """What to do when a stream breaks: say so, wait a little longer each time, and try again.

    Args:
        attempts: breaks one after another that are borne; None: any number.
    """

    def on_break(error: Broken, breaks: int) -> None:
        if attempts is not None and breaks > attempts:
            raise error
        delay = min(0.5 * 2 ** min(breaks - 1, 4), 5.0)
        aside().print(f"{error.title}; trying again in {delay:g} s.", style="yellow")
        time.sleep(delay)

    return on_break
