"""The smoke form of the soak: one kill of each kind of work, and what the check would notice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.soak import remembered
from tests.soak.memory import soak

pytestmark = pytest.mark.slow

SEED = 3


def test_nothing_is_lost_or_doubled_by_kill_9(tmp_path: Path) -> None:
    summary = soak(tmp_path, runs=3, seed=SEED, loops=12, tell=print)
    assert summary.runs == 3
    assert summary.problems == []


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("DELETE FROM segments WHERE id = 3", "segments: 1 lost"),
        ("DELETE FROM words WHERE rowid = 3", "words: 1 lost"),
        ("DELETE FROM indexed WHERE segment = 3", "rows of the index: 1 lost"),
        ("DELETE FROM iterations WHERE iteration = 0", "iterations: 2 lost"),
        ("UPDATE run_loops SET status = 'running'", "run loops: 2 lost"),
        ("INSERT INTO generations SELECT 9, 1, 'x', 'building', 'x', 0, 0", "generations: "),
    ],
)
def test_the_soak_notices_what_is_missing(harm: str, words: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    remembered.act("archive", home, SEED, 2)
    assert remembered.problems("archive", home, SEED, 2) == []
    with closing(sqlite3.connect(home / "memory.sqlite3")) as db, db:
        db.execute(harm)
    assert any(words in each for each in remembered.problems("archive", home, SEED, 2))
