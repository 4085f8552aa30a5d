"""The daemon while the weights of its model are still on their way, from a publisher near by."""

from __future__ import annotations

import json
import mmap
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from service.config import default_models_dir
from service.models.catalog import known_model
from service.models.weight_store import ModelStore
from tests.support.daemon import Running, environment, serving
from tests.support.models.web import Web, web_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TINY = known_model("smollm2-135m")
SMALL = known_model("qwen2.5-coder-0.5b")


@pytest.fixture
def publisher() -> Iterator[Web]:
    """Has a file of the right length, and gives 43 % of it."""
    with web_server() as web:
        web.weights = bytes(TINY.size)
        web.holds_at = TINY.size * 43 // 100 + 1
        web.stall.clear()
        yield web


def settings(folder: Path, web: Web, model: str = TINY.name) -> dict[str, str]:
    return {
        "RONDO_LLM__PROVIDER": "embedded",
        "RONDO_LLM__MODEL": model,
        "RONDO_MODELS_DIR": str(folder / "models"),
        "HF_ENDPOINT": f"http://127.0.0.1:{web.server_port}",
        "PIP_NO_INDEX": "1",  # so that the publisher alone can give it
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": os.devnull,
    }


def told_of_the_model(client: httpx2.Client) -> str:
    return str(client.get("/readyz").json()["llm"]["detail"])


@contextmanager
def serving_from(web: Web, weights: memoryview) -> Iterator[None]:
    """The real file instead, again up to 43 %."""
    web.weights, web.holds_at = weights, len(weights) * 43 // 100 + 1
    try:
        yield
    finally:
        web.weights = b""


def wait_until(what: Callable[[], bool], *, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def read_until(daemon: Running, words: str) -> str:
    """What it complains of, up to the line with these words."""
    assert daemon.process.stderr is not None
    read = ""
    while words not in read:
        line = daemon.process.stderr.readline()
        assert line, read
        read += line
    return read


def stop(daemon: Running) -> str:
    """As Ctrl-C does; what it had complained of."""
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(timeout=60) == 0
    return daemon.rest()[1]


def test_all_but_the_model_works_meanwhile_and_the_next_start_goes_on_where_it_was(
    tmp_path: Path, publisher: Web
) -> None:
    folder = tmp_path / "home"
    given = settings(tmp_path, publisher)
    with serving(folder, settings=given) as daemon, daemon.client(folder) as client:
        complaints = read_until(daemon, f"downloading {TINY.name}")
        wait_until(lambda: ", 43 % of 98 MB, from 127.0.0.1" in told_of_the_model(client))
        assert client.get("/readyz").status_code == 503
        response = client.post("/v1/memory/search", json={"query": "anything"})
        assert response.status_code == 200
        headers = {"Accept": "text/event-stream"}
        with client.stream("POST", "/v1/send", json={"message": "Hi"}, headers=headers) as heard:
            assert "event: iteration.started" in heard.iter_lines()
            complaints += stop(daemon)
    assert TINY.description.partition(";")[0] in " ".join(complaints.split())
    assert complaints.count(f"downloading {TINY.name}") <= 5  # a line of the log for every tenth
    assert "Traceback" not in complaints
    assert publisher.ranges == [None]

    with serving(folder, settings=given) as daemon, daemon.client(folder) as client:
        (loop,) = client.get("/v1/run-loops").json()["run_loops"]
        assert (loop["goal"], loop["status"]) == ("Hi", "running")  # it waits for the model again
        wait_until(lambda: len(publisher.ranges) > 1)
        assert publisher.ranges == [None, f"bytes={publisher.holds_at}-"]
        publisher.stall.set()
        # It was not the known file after all.
        wait_until(lambda: "another file than the known one" in told_of_the_model(client))
        stop(daemon)
    assert not list((tmp_path / "models").glob("*.gguf"))


def test_a_message_that_is_sent_meanwhile_is_kept_and_answered_once_the_model_is_there(
    tmp_path: Path, publisher: Web
) -> None:
    weights = ModelStore(default_models_dir()).pull(SMALL.name)
    folder = tmp_path / "home"
    given = settings(tmp_path, publisher, SMALL.name)
    with (
        weights.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
        serving_from(publisher, view),
        serving(folder, settings=given) as daemon,
        daemon.client(folder) as client,
    ):
        port = daemon.url.rpartition(":")[2]
        sender = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "send", "Hello!"],
            env=environment(folder, RONDO_SERVER__PORT=port, COLUMNS="200"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with sender:
            assert sender.stderr is not None
            lines = iter(sender.stderr.readline, "")
            line = next(each for each in lines if "The message is kept" in each)
            assert f"downloading {SMALL.name}, 43 % of 491 MB, from 127.0.0.1" in line
            publisher.stall.set()
            answer, _ = sender.communicate(timeout=300)
        assert answer.strip()
        assert sender.returncode == 0
        loops = client.get("/v1/run-loops").json()["run_loops"]
        assert [loop["goal"] for loop in loops] == ["Hello!"]
        complaints = stop(daemon)
    assert "the language model is here and works" in complaints


def test_at_a_terminal_the_progress_is_one_line_that_changes(
    tmp_path: Path, publisher: Web
) -> None:
    near, far = pty.openpty()
    variables = environment(
        tmp_path / "home",
        **settings(tmp_path, publisher),
        RONDO_SERVER__PORT="0",
        RONDO_EMBEDDER__KIND="none",
        TERM="xterm",
        COLUMNS="60",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve"],
        env=variables,
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
    ) as process:
        os.close(far)
        shown = b""
        while b", 43 % of 98 MB" not in shown:
            shown += os.read(near, 4096)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                shown += os.read(near, 4096)
            except OSError:  # nobody holds the other end any more
                break
        assert process.wait(60) == 0
    os.close(near)
    text = shown.decode()
    assert "Rondo is ready at" in text
    assert "INFO service.server.model_progress" not in text
    last = text.rpartition("43 % of 98 MB")[2]
    assert "\x1b[2K" in last  # nothing is left of it
    lines = text.replace("\r", "\n").splitlines()
    assert all(len(line.removeprefix("\x1b[2K")) <= 60 for line in lines if "%" in line)


def test_a_disk_that_cannot_hold_it_is_told_and_what_works_without_works(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    blocked = tmp_path / "models"
    blocked.write_text("in the way")
    given = {
        "RONDO_LLM__PROVIDER": "embedded",
        "RONDO_LLM__MODEL": TINY.name,
        "RONDO_MODELS_DIR": str(blocked),
    }
    with serving(folder, settings=given) as daemon, daemon.client(folder) as client:
        response = client.post("/v1/memory/search", json={"query": "anything"})
        assert response.status_code == 200
        wait_until(lambda: "cannot be used" in told_of_the_model(client))
        assert "RONDO_MODELS_DIR" in json.dumps(client.get("/readyz").json())
        stop(daemon)
