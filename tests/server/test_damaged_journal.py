"""A journal with damaged pages: readers are told, and not only the log."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from service.cli.doctor_checks import check_databases
from service.config import Settings
from service.domain.history.events import RunLoopStarted
from service.memory.memory import Memory
from tests.support.histories import received
from tests.support.server.http_daemon import running

pytestmark = pytest.mark.anyio


async def journal_of(folder: Path) -> Path:
    async with Memory(folder, None) as memory:
        for name in ("one", "two"):
            await memory.journal.append(
                name, RunLoopStarted(goal=name), received("word " * 20_000), owner="me"
            )
    return folder / "journal.sqlite3"


@pytest.mark.slow
async def test_a_daemon_that_set_a_loop_aside_is_not_ready_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with closing(sqlite3.connect(await journal_of(folder))) as db, db:
        db.execute('UPDATE events SET body = \'{"type": "of.the.future"}\' WHERE seq = 4')
    async with running(folder) as house:
        with anyio.fail_after(60):
            while "starting" in (response := await house.client.get("/readyz")).text:
                await anyio.sleep(0.02)
        assert response.status_code == 503
        part = response.json()["memory"]
        assert part["ready"] is False
        assert "part of the journal cannot be read" in part["detail"]
        assert "rondo doctor" in part["detail"]
        assert "of.the.future" not in response.text
        assert str(folder) not in response.text  # no token is needed to ask


async def test_the_doctor_finds_damaged_pages_and_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    settings = Settings(data_dir=folder)
    assert check_databases(settings).verdict == "ok"
    journal = await journal_of(folder)
    assert check_databases(settings).verdict == "ok"
    with closing(sqlite3.connect(journal)) as db:
        (size,) = db.execute("PRAGMA page_size").fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(journal.read_bytes())
    place = content.rindex(b"word word") // size * size  # a page with what was said
    content[place : place + size] = b"\xa5" * size
    journal.write_bytes(content)
    finding = check_databases(settings)
    assert finding.verdict == "broken"
    assert "journal.sqlite3 is damaged" in finding.words
    assert "restore journal.sqlite3 from a backup" in finding.advice


async def test_a_damaged_line_keeps_none_of_the_other_run_loops_from_being_listed(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        for words in ("one", "two", "三"):
            await house.send(words)
        with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db, db:
            db.execute("UPDATE run_loops SET goal = CAST(x'ff6f6e65' AS TEXT) WHERE goal = 'one'")
            db.execute("UPDATE run_loops SET created_at = 'soon' WHERE goal = 'two'")
        listed = await house.client.get("/v1/run-loops")
        assert listed.status_code == 200, listed.text
        goals = {each["goal"] for each in listed.json()["run_loops"]}
        assert goals == {"三", "\ufffdone"}
