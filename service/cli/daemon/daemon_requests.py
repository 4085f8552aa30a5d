"""Requests to the daemon: its HTTP routes as methods, its problems as errors in words.

The token is read from the daemon's data folder, and travels in a header only, never in an address.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import httpx2

from service.cli.daemon.daemon_errors import (
    BadTokenFileError,
    ConnectionLostError,
    DaemonNotRunningError,
    NotTheDaemonError,
    RefusedError,
    TokenRefusedError,
    UnknownFormError,
)
from service.cli.daemon.stream_items import Json, read_as
from service.config import Settings
from service.wire.daemon_bodies import Readiness

_TOKEN = re.compile(r"[\x21-\x7e]+")  # what a header can carry, without white space
_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 90.0  # streams have heartbeats: a longer silence is a dead connection
_BATCH_SECONDS = 600.0
_WORK_SECONDS = 3600.0
Params = Mapping[str, str | int | list[str]]
"""A query; a list is sent as its name several times."""


class _TokenAuth(httpx2.Auth):
    """Reads the token from its file; once more when it was refused.

    A daemon that starts for the first time listens a moment before its token is there.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send with the token, and again if there is another one by now."""
        token = read_token(self._file)
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        newer = read_token(self._file)
        if response.status_code == 401 and newer not in (None, token):
            request.headers["Authorization"] = f"Bearer {newer}"
            yield request


def read_token(file: Path) -> str | None:
    """The token, or None when there is none that can be read: the daemon's refusal says more.

    Raises:
        BadTokenFileError: the file holds something else. What it is is not shown: it is secret.
    """
    try:
        token = file.read_text("utf-8", errors="replace").strip()
    except OSError:
        return None
    if token and not _TOKEN.fullmatch(token):
        raise BadTokenFileError(
            f"the token file {file} does not hold a token, but white space or characters that no "
            "token has",
            advice="Put the token back; or delete the file and start the daemon again: it makes "
            "a new one.",
        )
    return token or None


class DaemonRequests:
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
        self.http = httpx2.Client(
            base_url=self.url,
            auth=_TokenAuth(self.token_file),
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
        self.http.close()

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
        with self.translated_errors():
            # The last batch may wait for a disk that others use, too.
            response = self.http.post(
                path,
                params=params,
                content=chunks,
                headers={"Content-Type": media_type},
                timeout=httpx2.Timeout(_BATCH_SECONDS, connect=_CONNECT_SECONDS),
            )
        self.check(response)
        return self._object(response)

    @contextmanager
    def download(self, path: str, params: Params | None = None) -> Iterator[httpx2.Response]:
        """An answer of any length, to be read within ``with``; it ends early only with an error.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        with self.translated_errors(), self.http.stream("GET", path, params=params) as response:
            if not response.is_success:
                response.read()
            self.check(response)
            yield response

    def readiness(self) -> Readiness:
        """What ``/readyz`` says, ready or not. Needs no token.

        Raises:
            DaemonError: see `service.cli.daemon.daemon_errors`.
        """
        with self.translated_errors():
            response = self.http.get("/readyz", auth=None)
        if response.status_code not in (200, 503):
            raise self.stranger()
        try:
            return read_as(Readiness, self._object(response))
        except UnknownFormError as error:
            raise self.stranger() from error

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
        with self.translated_errors():
            response = self.http.request(method, path, params=params, json=body, timeout=timeout)
        self.check(response)
        return self._object(response)

    # --- errors

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
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
            raise self.stranger() from error
        except httpx2.TransportError as error:
            raise self._lost(error) from error

    def _lost(self, error: httpx2.TransportError) -> ConnectionLostError:
        return ConnectionLostError(
            f"{self.url}: {error or type(error).__name__}",
            advice="What was accepted is safe, and goes on without you. See `rondo loops`, and "
            "`rondo doctor` when it happens again.",
        )

    def stranger(self) -> NotTheDaemonError:
        """The error that tells that another program answers."""
        return NotTheDaemonError(
            f"what answers at {self.url} does not speak as Rondo does",
            advice="Choose another port for both `rondo serve` and this command: "
            "set RONDO_SERVER__PORT, or server.port in rondo.toml.",
        )

    def check(self, response: httpx2.Response) -> None:
        """Let an answer pass that is no problem.

        Raises:
            DaemonError: what it tells.
        """
        if response.is_success:
            return
        if response.headers.get("content-type", "").split(";")[0] != "application/problem+json":
            raise self.stranger()
        problem = self._object(response)
        if response.status_code == 401:
            raise self._refused_token()
        raise RefusedError(
            response.status_code,
            *(str(problem.get(name) or "") for name in ("title", "detail", "advice")),
        )

    def _refused_token(self) -> TokenRefusedError:
        has_token = read_token(self.token_file) is not None
        fault = "is not its token" if has_token else "does not exist or cannot be read"
        return TokenRefusedError(
            f"{self.token_file} {fault}: the daemon at {self.url} has another data folder",
            advice="Set RONDO_DATA_DIR to the data folder that the daemon was started with.",
        )

    def _object(self, response: httpx2.Response) -> Json:
        try:
            value = response.json()
        except ValueError as error:
            raise self.stranger() from error
        if not isinstance(value, dict):
            raise self.stranger()
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
