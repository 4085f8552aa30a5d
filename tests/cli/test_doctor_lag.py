"""`rondo doctor`: how far long-term memory is behind the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.doctor_checks import check_readers
from service.config import ServerSettings, Settings
from service.domain.errors import StorageError
from service.domain.history.events import IterationStarted
from service.domain.run_loops import RunLoop
from service.memory.memory import Memory
from tests.support.memory.exchanging import at_work
from tests.support.memory.killed_reading import said

pytestmark = pytest.mark.anyio


def words(folder: Path) -> str:
    """What is found of the files; no daemon listens there."""
    return check_readers(Settings(data_dir=folder, server=ServerSettings(port=9))).words


async def test_it_tells_what_long_term_memory_has_not_read_yet(tmp_path: Path) -> None:
    assert words(tmp_path) == "nothing was journaled yet"
    async with Memory(tmp_path, None) as memory:  # nobody archives
        await said(memory.journal, "a")
        assert words(tmp_path).startswith("long-term memory is 4 changes behind the journal, for ")
    async with at_work(tmp_path) as memory:
        assert await memory.archivist.drain() is None
        assert words(tmp_path) == "long-term memory has read all changes"


async def test_it_names_the_reason_why_a_run_loop_is_not_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(run_loop: RunLoop) -> int:
        raise StorageError("a bad spot")

    async with at_work(tmp_path) as memory:
        monkeypatch.setattr(memory.long_term, "archive", refuse)
        await said(memory.journal, "a")
        assert await memory.archivist.drain() is not None
        finding = check_readers(Settings(data_dir=tmp_path, server=ServerSettings(port=9)))
        assert finding.verdict == "note"
        assert "has 1 run loop to archive; one cannot be archived" in finding.words
        assert "a bad spot" in finding.words


async def test_a_run_loop_at_work_is_not_told_as_waiting(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await said(memory.journal, "a")
        await memory.journal.append("a", IterationStarted(index=1))
        await said(memory.journal, "b")
        assert await memory.archivist.drain() is None
        assert words(tmp_path) == "long-term memory has read all changes"
