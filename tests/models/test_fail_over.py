"""The publisher comes first; where it fails, in whichever way, the next source gives the file."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from service.models.catalog import CATALOG, FileSource, HttpSource, WheelsSource
from service.models.fetch import (
    HURRIED,
    Patience,
    PullCancelledError,
    PullFailedError,
    PullProgress,
)
from service.models.weight_store import ModelStore
from tests.support.models.stores import WEIGHTS, entry, left_over, store
from tests.support.models.web import Web, web_server

LONG = replace(HURRIED, reach=60, answer=60, silence=60)
"""For publishers that answer: however busy this machine is, they are not given up."""
BRIEF = replace(HURRIED, reach=0.5, answer=0.5, silence=2)
"""For those that do not: a test need not wait for as long as a person's daemon does."""


@pytest.fixture
def index() -> Iterator[Web]:
    """What stands behind the publisher."""
    with web_server() as server:
        yield server


def pull(
    folder: Path, *sources: HttpSource, patience: Patience = LONG
) -> tuple[Path, list[PullProgress]]:
    seen: list[PullProgress] = []
    models = ModelStore(folder / "models", catalog=[entry(*sources)], hurried=patience)
    return models.pull("tiny", progress=seen.append), seen


def fetched_from(seen: list[PullProgress]) -> list[str]:
    return list(dict.fromkeys(each.source for each in seen if each.stage == "downloading"))


def at(web: Web, name: str) -> HttpSource:
    """The same server by another name of this machine, to tell sources apart in the progress."""
    return HttpSource(web.url.replace("127.0.0.1", name))


def test_of_every_known_model_the_publishers_own_file_comes_first() -> None:
    for model in CATALOG:
        first, second = model.sources
        assert isinstance(first, HttpSource)
        assert isinstance(second, WheelsSource)
        assert first.label == "huggingface.co"
        assert second.label == "the package index"


def test_a_mirror_of_the_publisher_takes_its_place() -> None:
    program = "from service.models.catalog import CATALOG; print(CATALOG[0].sources[0])"
    variables = {**os.environ, "HF_ENDPOINT": "https://mirror.example/hub/"}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True)
    assert done.stdout.startswith(b"https://mirror.example/hub/Qwen/")


def test_a_publisher_that_can_be_reached_is_used_and_the_index_is_not_asked(
    tmp_path: Path, web: Web, index: Web
) -> None:
    path, seen = pull(tmp_path, at(web, "localhost"), index.source)
    assert path.read_bytes() == WEIGHTS
    assert index.ranges == []
    assert fetched_from(seen) == ["localhost"]
    assert "from localhost" in seen[0].in_words()


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_a_publisher_that_answers_with_an_error_is_asked_once(
    tmp_path: Path, web: Web, index: Web, status: int
) -> None:
    web.status = status
    path, seen = pull(tmp_path, at(web, "localhost"), index.source)
    assert path.read_bytes() == WEIGHTS
    assert web.ranges == [None]
    assert fetched_from(seen) == ["127.0.0.1"]


def test_a_publisher_that_refuses_connections_gives_way(tmp_path: Path, index: Web) -> None:
    with socket.socket() as bound:  # it has a port, and does not listen
        bound.bind(("127.0.0.1", 0))
        gone = HttpSource(f"http://127.0.0.1:{bound.getsockname()[1]}/tiny.gguf")
        assert pull(tmp_path, gone, index.source)[0].read_bytes() == WEIGHTS


@contextmanager
def never_accepting() -> Iterator[int]:
    """A port whose queue is full: whoever connects gets no answer at all, as behind a firewall."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        queued = []
        for _ in range(8):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
            queued.append(each)
        try:
            yield listener.getsockname()[1]
        finally:
            for each in queued:
                each.close()


@contextmanager
def never_answering() -> Iterator[int]:
    """A port that takes connections, and says nothing, neither in HTTP nor in TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("silent", [never_accepting, never_answering])
def test_a_publisher_of_whom_nothing_is_heard_gives_way_and_is_told(
    tmp_path: Path, index: Web, silent: object, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with silent() as port:  # type: ignore[operator]
        source = HttpSource(f"{scheme}://127.0.0.1:{port}/tiny.gguf")
        path, _ = pull(tmp_path, source, index.source, patience=BRIEF)
    assert path.read_bytes() == WEIGHTS
    assert "tiny is not fetched from 127.0.0.1" in caplog.text


@pytest.mark.slow
def test_a_name_server_that_does_not_answer_holds_nothing_up(
    tmp_path: Path, index: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, real = threading.Event(), socket.getaddrinfo

    def hanging(host: str, *args: object, **options: object) -> object:
        if host == "publisher.example":
            let_go.wait(120)
        return real(host, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    source = HttpSource("https://publisher.example/tiny.gguf")
    try:
        path, _ = pull(tmp_path, source, index.source, patience=BRIEF)
        assert path.read_bytes() == WEIGHTS
        assert not let_go.is_set()
    finally:
        let_go.set()


def test_a_name_that_nobody_knows_gives_way(tmp_path: Path, index: Web) -> None:
    source = HttpSource("https://publisher.invalid/tiny.gguf")
    assert pull(tmp_path, source, index.source)[0].read_bytes() == WEIGHTS


def test_the_name_of_a_proxy_is_looked_up_and_not_the_one_behind_it(
    tmp_path: Path, web: Web, index: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To a proxy, a request for another host is one with a whole address in its first line.
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{web.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    source = HttpSource("http://publisher.invalid/tiny.gguf")
    assert pull(tmp_path, source, index.source)[0].read_bytes() == WEIGHTS
    assert web.ranges == [None]
    assert index.ranges == []


def test_a_redirect_to_another_host_is_followed(tmp_path: Path, web: Web, index: Web) -> None:
    with web_server() as cdn:
        web.redirect_to = cdn.url.replace("127.0.0.1", "localhost")
        cdn.break_after = [1_000_000]
        assert pull(tmp_path, web.source, index.source)[0].read_bytes() == WEIGHTS
        assert cdn.ranges == [None, "bytes=1000000-"]
    assert index.ranges == []


@pytest.mark.slow
def test_a_redirect_that_goes_round_gives_way(tmp_path: Path, web: Web, index: Web) -> None:
    web.redirect_to = web.url
    assert pull(tmp_path, web.source, index.source)[0].read_bytes() == WEIGHTS


def test_a_redirect_out_of_https_is_not_followed(
    tmp_path: Path, web: Web, index: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with web_server() as publisher:
        publisher.socket = context.wrap_socket(publisher.socket, server_side=True)
        source = HttpSource(f"https://localhost:{publisher.server_port}/tiny.gguf")
        assert pull(tmp_path / "over-tls", source, index.source)[0].read_bytes() == WEIGHTS
        assert index.ranges == []
        publisher.redirect_to = web.url
        assert pull(tmp_path / "redirected", source, index.source)[0].read_bytes() == WEIGHTS
        assert len(publisher.ranges) == 2
    assert web.ranges == []
    assert index.ranges == [None]


@pytest.mark.slow
def test_a_publisher_that_stalls_midway_gives_way(tmp_path: Path, web: Web, index: Web) -> None:
    web.stall.clear()
    stalled = replace(LONG, silence=2)
    path, seen = pull(tmp_path, at(web, "localhost"), index.source, patience=stalled)
    assert path.read_bytes() == WEIGHTS
    assert fetched_from(seen) == ["localhost", "127.0.0.1"]
    assert web.ranges == [None, "bytes=100000-"]


@pytest.mark.slow
def test_what_a_publisher_gave_before_it_stalled_is_kept_for_the_next_time(
    tmp_path: Path, web: Web, index: Web
) -> None:
    web.stall.clear()
    index.stall.clear()
    catalog = [entry(web.source, index.source)]
    models = ModelStore(tmp_path / "models", catalog=catalog, hurried=replace(LONG, silence=2))
    with pytest.raises(PullCancelledError):
        models.pull("tiny", cancelled=lambda: bool(index.ranges))
    web.stall.set()
    assert models.pull("tiny").read_bytes() == WEIGHTS
    assert web.ranges[-1] == "bytes=100000-"
    assert len(index.ranges) == 1


def test_a_publisher_that_gives_too_little_gives_way(tmp_path: Path, web: Web, index: Web) -> None:
    picky = replace(LONG, pace_seconds=0, least_bytes=10**9)
    path, seen = pull(tmp_path, at(web, "localhost"), index.source, patience=picky)
    assert path.read_bytes() == WEIGHTS
    assert fetched_from(seen) == ["localhost", "127.0.0.1"]


def test_where_all_else_fails_a_slow_publisher_is_waited_for(tmp_path: Path, web: Web) -> None:
    # Behind a mirror that has not everything, on a slow line, it is the only one who has the file.
    picky = replace(LONG, pace_seconds=0, least_bytes=10**9)
    path, _ = pull(tmp_path, web.source, HttpSource("http://127.0.0.1:9/no"), patience=picky)
    assert path.read_bytes() == WEIGHTS
    assert len(web.ranges) == 2
    assert (web.ranges[1] or "").startswith("bytes=")


@pytest.mark.slow
def test_a_connection_that_breaks_again_and_again_brings_it_all_the_same(
    tmp_path: Path, web: Web, index: Web
) -> None:
    web.break_after = [100_001] * 25
    assert pull(tmp_path, web.source, index.source)[0].read_bytes() == WEIGHTS
    assert len(web.ranges) == 26
    assert index.ranges == []


def test_a_publisher_without_ranges_that_breaks_off_begins_again(
    tmp_path: Path, web: Web, index: Web
) -> None:
    web.knows_ranges = False
    web.break_after = [1_000_000]
    assert pull(tmp_path, web.source, index.source)[0].read_bytes() == WEIGHTS
    assert web.ranges == [None, "bytes=1000000-"]
    assert index.ranges == []


def test_a_publisher_with_another_file_costs_nothing_of_what_the_next_one_gave(
    tmp_path: Path, web: Web, local_file: FileSource
) -> None:
    web.weights = WEIGHTS[::-1]
    partial = tmp_path / "models" / ".partial" / "tiny" / "file"
    partial.mkdir(parents=True)
    (partial / "kept").write_bytes(b"from before")
    with pytest.raises(PullFailedError, match="another file") as raised:
        store(tmp_path, web.source, FileSource(tmp_path / "none")).pull("tiny")
    assert not raised.value.wrong_hash  # the other one may have the right file next time
    assert left_over(tmp_path) == ["kept"]
    assert store(tmp_path, web.source, local_file).pull("tiny").read_bytes() == WEIGHTS


def test_where_the_disk_cannot_hold_both_what_one_source_gave_makes_room_for_the_next(
    tmp_path: Path, local_file: FileSource
) -> None:
    partial = tmp_path / "models" / ".partial" / "tiny" / "http"
    partial.mkdir(parents=True)
    (partial / "http.bin").write_bytes(WEIGHTS[:1_000_000])
    spare = 150_000_000
    models = store(tmp_path, local_file, free=spare + len(WEIGHTS) - 500_000)
    assert models.pull("tiny").read_bytes() == WEIGHTS


@pytest.mark.slow
def test_a_pull_that_was_killed_goes_on_with_the_publisher_where_it_was(
    tmp_path: Path, web: Web, index: Web
) -> None:
    web.stall.clear()
    program = f"""
import sys
sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path
from service.models.catalog import HttpSource
from tests.support.models.stores import store
def tell(progress):
    if progress.done_bytes:
        print(progress.done_bytes, flush=True)
store(Path({str(tmp_path)!r}), HttpSource({web.url!r})).pull("tiny", progress=tell)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    web.stall.set()
    path, _ = pull(tmp_path, web.source, index.source)
    assert path.read_bytes() == WEIGHTS
    assert index.ranges == []
    assert int((web.ranges[-1] or "bytes=0-")[6:-1]) > 0
