"""A daemon that strangers flood with connections goes on answering those who have a token."""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.daemon import serving

pytestmark = pytest.mark.slow

MANY = 1_100


@contextmanager
def half_sent(url: str, count: int) -> Iterator[list[socket.socket]]:
    """So many connections on which a request was begun and not ended."""
    address = urlsplit(url)
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            made = socket.create_connection((address.hostname, address.port or 0), timeout=30)
            opened.append(stack.enter_context(made))
            made.sendall(b"GET / HTTP/1.1\r\nX: ")
        yield opened


@pytest.fixture(autouse=True)
def _room_for_our_own_sockets() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * MANY:
        pytest.skip(f"this machine lets a process open {hard} files, too few for the test's own")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("open_files", ["-Sn 1024", "-n 1024"], ids=["soft", "hard"])
def test_half_sent_requests_beyond_the_limit_of_open_files_stop_nobody(
    tmp_path: Path, open_files: str
) -> None:
    folder = tmp_path / "home"
    with serving(folder, open_files=open_files) as daemon, daemon.client(folder) as client:
        with half_sent(daemon.url, MANY):
            for number in range(5):
                with daemon.client(folder) as newcomer:  # a connection of its own
                    newcomer.timeout = 120  # a machine that is busy is not a daemon that is dead
                    assert newcomer.get("/healthz").json()["status"] == "ok"
                    answer = newcomer.post("/v1/send", json={"message": f"Hello {number}"})
                    assert answer.json()["response"] == f"You said: Hello {number}"
        assert client.get("/readyz").json()["ready"]
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(timeout=60) == 0
        _, complaints = daemon.rest()
    assert len(complaints) < 20_000
    assert "Traceback" not in complaints
    assert complaints.count("Too many open files") <= 1
