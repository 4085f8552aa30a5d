"""Keeps the embedded model's process: fetches the weights, starts it, waits for it, ends it.

All of it happens in one thread of its own, which lives as long as the process does. A caller that
is cancelled, or a router that runs out of patience, therefore neither stops a download nor leaves
a half-started process behind; and the kernel's parent-death signal, which on Linux follows the
thread that started a child, comes at the right time.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Literal

from service.domain.errors import Problem, RondoError
from service.models.fetch import PullFailedError, PullProgress
from service.models.weight_store import ModelStore

Phase = Literal["preparing", "downloading", "loading", "ready", "over"]

_STOP_SECONDS = 5.0
_LOG_CHARACTERS = 500


class ModelProcess:
    """One life of the model's process. Make another one when it is over.

    Any thread may read; `start` and `stop` are for the owner.
    """

    def __init__(
        self, store: ModelStore, name: str, *, context_tokens: int, states_dir: Path | None = None
    ) -> None:
        self._store = store
        self._name = name
        self._context_tokens = context_tokens
        self._states_dir = states_dir
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"model {name}", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.phase: Phase = "preparing"
        self.progress: PullProgress | None = None
        """The last report of the download."""
        self.address = ""
        """Where it listens, once ready."""
        self.api_key = secrets.token_urlsafe(24)
        self.problem: Problem | None = None
        """Why it is over; None when it was stopped."""
        self.ended_at = 0.0
        """When it was over (``time.monotonic``)."""
        self.is_hopeless = False
        """Whether another life would fail in the same way."""

    @property
    def pid(self) -> int | None:
        """Process id of the child, while there is one."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin, in the background."""
        self._thread.start()

    def stop_fetching(self) -> None:
        """End it if there are no weights yet. Does not block."""
        if self.phase in ("preparing", "downloading"):
            self._stopping.set()

    def stop(self) -> None:
        """End the process, or whatever leads up to it. Blocks until that is done (seconds)."""
        self._stopping.set()
        self._kill()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _live(self) -> None:
        try:
            with tempfile.TemporaryFile() as log:
                self._serve(self._weights(), log)
        except RondoError as error:
            self.is_hopeless = isinstance(error, PullFailedError) and error.wrong_hash
            self._fail(error.problem())
        except Exception as error:  # noqa: BLE001 - a thread has no caller: the reason is kept
            self._fail(
                Problem(
                    kind="llm",
                    title="The embedded model could not be started",
                    detail=f"{type(error).__name__}: {error}",
                )
            )
        finally:
            self._kill()
            self.ended_at = time.monotonic()
            self.phase = "over"

    def _weights(self) -> Path:
        if (path := self._store.path(self._name)) is not None:
            return path
        self.phase = "downloading"
        return self._store.pull(
            self._name, progress=self._progressed, cancelled=self._stopping.is_set
        )

    def _progressed(self, progress: PullProgress) -> None:
        self.progress = progress

    def _serve(self, model: Path, log: IO[bytes]) -> None:
        self.phase = "loading"
        command = [
            *(sys.executable, "-m", "service.llm.embedded.embedded_server"),
            *("--model", str(model), "--context", str(self._context_tokens)),
            *("--parent", str(os.getpid())),
        ]
        if self._states_dir is not None:
            command += ["--states", str(self._states_dir)]
        process = self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # a terminal's Ctrl-C is for the daemon, which then ends us
        )
        assert process.stdin is not None
        assert process.stdout is not None
        if self._stopping.is_set():
            return
        with process.stdout, process.stdin:
            with contextlib.suppress(BrokenPipeError):  # it has ended: the empty answer says so
                process.stdin.write(json.dumps({"api_key": self.api_key}).encode() + b"\n")
                process.stdin.flush()
            if answer := process.stdout.readline():
                self.address = str(json.loads(answer)["address"])
                self.phase = "ready"
            code = process.wait()
        self._fail(self._ended(code, log, loaded=bool(self.address)))

    def _ended(self, code: int, log: IO[bytes], *, loaded: bool) -> Problem:
        how = f"with exit code {code}"
        if code < 0:
            how = f"by signal {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += ", perhaps for want of memory"
        log.seek(0)
        words = " ".join(log.read().decode("utf-8", "replace").split())[-_LOG_CHARACTERS:]
        return Problem(
            kind="llm-connection",
            title=f"The process of {self._name} ended",
            detail=f"It ended {how}{'' if loaded else ' while loading'}"
            + (f"; its last words: {words}" if words else ""),
            advice="It starts again with the next message.",
        )

    def _fail(self, problem: Problem) -> None:
        if not self._stopping.is_set():
            self.problem = problem

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()  # it keeps nothing that could be lost
            process.wait()
