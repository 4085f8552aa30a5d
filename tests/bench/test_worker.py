"""The frame that subject and peers are measured in."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import service
from service.bench.loop import bench_worker


async def writes(steps: int, folder: Path, began: Callable[[], None]) -> None:
    for _ in range(steps + 1):
        began()
    (folder / "journal.sqlite3").write_bytes(b"x" * 10 * steps)
    (folder / "other").write_bytes(b"x" * 1000)


@pytest.mark.slow
def test_only_the_measured_loop_counts_and_not_the_one_that_warms_up(tmp_path: Path) -> None:
    seen = bench_worker.measure(writes, 3, tmp_path / "data", kept="journal*")
    assert len(seen["starts"]) == 4
    assert seen["starts"] == sorted(seen["starts"])
    assert seen["disk_bytes"] == 30


@pytest.mark.slow
def test_a_loop_that_takes_other_steps_than_it_was_to_is_an_error(tmp_path: Path) -> None:
    async def lazy(steps: int, folder: Path, began: Callable[[], None]) -> None:
        began()

    with pytest.raises(RuntimeError, match="5 steps"):
        bench_worker.measure(lazy, 5, tmp_path / "data")


@pytest.mark.slow
def test_collections_of_garbage_are_seen_only_while_one_looks() -> None:
    with bench_worker.Pauses() as pauses:
        gc.collect()
    seen = len(pauses.taken)
    gc.collect()
    assert seen == len(pauses.taken) >= 1
    assert all(taken >= 0 for taken in pauses.taken)


def test_the_frame_needs_nothing_but_the_standard_library() -> None:
    """The Python of the peers has none of our own libraries."""
    root = Path(service.__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import service.bench.loop.bench_worker"
    code += ", service.bench.loop.peers"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
