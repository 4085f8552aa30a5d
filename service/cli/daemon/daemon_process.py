"""A daemon of one's own, as a child process with its own data folder: for tours and tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import ConnectionLostError, DaemonError, DaemonNotRunningError
from service.config import ServerSettings, Settings
from service.wire.daemon_bodies import Readiness

_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.1
_LISTENS = re.compile(
    r"ready at http://\S+:(?P<port>\d+) "
)  # `service.server.daemon_main.greeting`


class DaemonStartError(DaemonError):
    """A daemon that was started did not come up."""

    kind = "daemon-start"
    title = "The daemon did not start"


class DaemonProcess:
    """A running daemon."""

    def __init__(self, process: subprocess.Popen[bytes], settings: Settings, log: Path) -> None:
        self.settings = settings
        """By which commands and clients find it; its port is known once it listens."""
        self.log = log
        """What it writes."""
        self._process = process

    def client(self) -> Daemon:
        """A new connection, with the token as it is now."""
        return Daemon(self.settings)

    def wait_until(self, is_ready: Callable[[Readiness], bool]) -> None:
        """Wait until ``/readyz`` says what is wanted.

        Raises:
            DaemonStartError: the process ended, or it took too long; holds the end of its log.
        """
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise self._failure(f"it ended with exit code {self._process.returncode}")
            readiness = self._readiness()
            if readiness is not None and is_ready(readiness):
                return
            time.sleep(_POLL_SECONDS)
        raise self._failure(f"it was not ready after {_START_SECONDS:.0f} s")

    def _readiness(self) -> Readiness | None:
        """What ``/readyz`` says; None while nobody answers."""
        if not self.settings.server.port:
            listens = _LISTENS.search(self._written())
            if listens is None:
                return None
            server = self.settings.server.model_copy(update={"port": int(listens["port"])})
            self.settings = self.settings.model_copy(update={"server": server})
        try:
            with self.client() as client:
                return client.readiness()
        except (DaemonNotRunningError, ConnectionLostError):
            return None

    def stop(self) -> int:
        """Ask it to stop, and wait; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _failure(self, detail: str) -> DaemonStartError:
        tail = "\n".join(self._written().strip().splitlines()[-15:])
        return DaemonStartError(
            f"{detail}\n{tail}" if tail else detail, advice="`rondo doctor` looks for the reason."
        )

    def _written(self) -> str:
        return self.log.read_text("utf-8", errors="replace")


@contextmanager
def running_daemon(
    settings: Settings, folder: Path, *, environment: Mapping[str, str] | None = None
) -> Iterator[DaemonProcess]:
    """Start a daemon on a free port, and stop it on leaving.

    Args:
        settings: for its clients; address and data folder are replaced.
        folder: for its data and its log.
        environment: variables for the process, beside those of this one.

    Raises:
        DaemonStartError: it ended at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "daemon.log"
    mine = settings.model_copy(
        update={"data_dir": folder / "data", "server": ServerSettings(port=0)}
    )
    command = [sys.executable, "-m", "service.cli", "serve"]
    command += ["--host", mine.server.host, "--port", str(mine.server.port)]
    command += ["--data-dir", str(mine.data_dir)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            start_new_session=True,  # Ctrl-C is for us, who then stop it in good order
        )
    daemon = DaemonProcess(process, mine, log)
    try:
        yield daemon
    finally:
        daemon.stop()
