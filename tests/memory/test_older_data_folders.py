"""A data folder that an earlier version has made: it is brought into the form of today, a copy of
its journal is kept, and the same is told of it."""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.cli.doctor_checks import check_databases
from service.config import Settings
from service.domain.errors import StorageError
from service.domain.forgetting_terms import ForgetRequest
from service.memory.journal.sqlite.journal_form import VERSION, copies
from service.memory.memory import Memory
from service.storage.sqlite_copy import PART
from tests.support.memory.killed_migrating import DEAD
from tests.support.memory.recorded_folder import told_of, unpack
from tests.support.memory.secrets import archived, forget, traces, working_memory

PACKED = Path(__file__).parents[2] / "data" / "fixtures" / "data_folder_before_references"
COPY = f"journal.before-v{VERSION}.sqlite3"
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def told_now(folder: Path) -> dict[str, Any]:
    async with Memory(folder) as memory:
        await archived(memory)
        snapshot: dict[str, Any] = json.loads(json.dumps(await told_of(memory)))
        return snapshot


def rows(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT seq, body FROM events"))


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        user_version: int = db.execute("PRAGMA user_version").fetchone()[0]
        return user_version


def left(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as db:
        unmigrated: int = db.execute("SELECT count(*) FROM unmigrated").fetchone()[0]
        return unmigrated


def quoting(snapshot: dict[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """The events by which memory gave something, and what it gave."""
    for event in snapshot["events"]:
        if event["type"] == "memory.recalled":
            yield event["seq"], [each["content"] for each in event["data"]["recollections"]]
        elif event["type"] == "tool.finished" and event["data"]["name"].startswith("memory_"):
            lines = event["data"]["content"].splitlines()
            yield event["seq"], [line[2:] for line in lines if line.startswith("> ")]


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_run_loops_anchors_and_what_is_found_stay_as_they_were(tmp_path: Path) -> None:
    recorded = unpack(PACKED, tmp_path)
    for _ in range(2):
        now = await told_now(tmp_path)
        for part in recorded:
            assert now[part] == recorded[part], part
    assert len(recorded["events"]) > 300
    assert all(recorded["found"].values())


async def test_what_memory_gave_stands_no_more_in_the_rows_that_tell_it(tmp_path: Path) -> None:
    recorded = unpack(PACKED, tmp_path)
    before = rows(tmp_path / "journal.sqlite3")
    await told_now(tmp_path)
    after = rows(tmp_path / "journal.sqlite3")
    given = [(seq, each) for seq, pieces in quoting(recorded) for each in pieces if len(each) > 3]
    assert len(given) > 60
    for seq, words in given:
        escaped = json.dumps(words, ensure_ascii=False)[1:-1]
        assert escaped in before[seq]
        assert escaped not in after[seq]


async def test_what_other_run_loops_are_about_stands_no_more_in_routes(tmp_path: Path) -> None:
    recorded = unpack(PACKED, tmp_path)
    before = rows(tmp_path / "journal.sqlite3")
    await told_now(tmp_path)
    after = rows(tmp_path / "journal.sqlite3")
    routes = [each for each in recorded["events"] if each["type"] == "route.decided"]
    named = [
        (each["seq"], candidate["goal"])
        for each in routes
        for candidate in each["data"]["route"]["candidates"]
    ]
    assert len(named) > 20
    for seq, goal in named:
        assert goal in before[seq]
        assert goal not in after[seq]


async def test_what_a_fork_began_with_stands_no_more_in_it(tmp_path: Path) -> None:
    recorded = unpack(PACKED, tmp_path)
    forked = {
        each["run_loop_id"]: (each["seq"], each["data"]["forked_from"]["seq"])
        for each in recorded["events"]
        if each["type"] == "run_loop.started" and each["data"].get("forked_from")
    }
    assert len(forked) > 2
    before = rows(tmp_path / "journal.sqlite3")
    await told_now(tmp_path)
    after = rows(tmp_path / "journal.sqlite3")
    said = [
        (each["seq"], part["text"])
        for each in recorded["events"]
        if each["type"] in ("message.received", "message.completed")
        for part in each["data"]["message"]["content"]
        if each["run_loop_id"] in forked and part["type"] == "text"
    ]
    inherited = [(seq, words) for seq, words in said if '"same_as":' in after[seq]]
    assert len(inherited) > 10
    for seq, words in inherited:
        escaped = json.dumps(words, ensure_ascii=False)[1:-1]
        assert escaped in before[seq]
        assert escaped not in after[seq]


async def test_what_was_moved_stands_where_it_went_alone(tmp_path: Path) -> None:
    recorded = unpack(PACKED, tmp_path)
    moves = [each for each in recorded["events"] if each["type"] == "message.moved"]
    assert len(moves) > 2
    before = rows(tmp_path / "journal.sqlite3")
    await told_now(tmp_path)
    after = rows(tmp_path / "journal.sqlite3")
    for move in moves:
        for each in recorded["events"]:
            if each["run_loop_id"] != move["run_loop_id"] or each["seq"] > move["seq"]:
                continue
            if each["data"].get("message_id") in move["data"]["message_ids"] and (
                each["type"] == "message.received"
            ):
                words = each["data"]["message"]["content"][0]["text"]
                assert words in before[each["seq"]]
                assert words not in after[each["seq"]]


async def test_the_journal_as_it_was_is_kept_for_its_owner_until_something_is_forgotten(
    tmp_path: Path,
) -> None:
    unpack(PACKED, tmp_path)
    before = rows(tmp_path / "journal.sqlite3")
    await told_now(tmp_path)
    copy = tmp_path / COPY
    assert rows(copy) == before
    assert version(copy) == 2
    assert copy.stat().st_mode & 0o777 == 0o600
    written = copy.stat().st_mtime_ns
    await told_now(tmp_path)
    assert copy.stat().st_mtime_ns == written

    check = check_databases(Settings(data_dir=tmp_path))
    assert str(copy) in check.words
    assert "MB" in check.words
    assert "forgetting deletes it" in check.advice

    async with working_memory(tmp_path) as memory:
        request = ForgetRequest(run_loop_ids=("old-garden",), with_answers=True)
        receipt = await forget(memory, request)
        assert receipt.removed.journal_copies == 1
        assert not receipt.pending
        assert copies(tmp_path / "journal.sqlite3") == []
        assert check_databases(Settings(data_dir=tmp_path)).verdict == "ok"
    assert traces(tmp_path, "In October, by the shed.") == []


async def test_being_killed_in_the_middle_loses_nothing_and_the_next_start_goes_on(
    tmp_path: Path,
) -> None:
    recorded = unpack(PACKED, tmp_path)
    before = rows(tmp_path / "journal.sqlite3")
    counts = []
    for done in (3, 4):
        command = [sys.executable, "-m", "tests.support.memory.killed_migrating", str(tmp_path)]
        died = await anyio.run_process([*command, str(done)], check=False)
        assert died.returncode == DEAD
        counts.append(left(tmp_path))
    assert counts == [len(recorded["run_loops"]) - 3, len(recorded["run_loops"]) - 7]
    assert rows(tmp_path / COPY) == before, "the copy is of the journal before all that"
    now = await told_now(tmp_path)
    assert now == recorded
    assert left(tmp_path) == 0


async def test_a_part_of_a_copy_is_no_copy(tmp_path: Path) -> None:
    unpack(PACKED, tmp_path)
    before = rows(tmp_path / "journal.sqlite3")
    part = tmp_path / f"{COPY}{PART}"
    part.write_bytes(b"what was written when the process was killed")
    await told_now(tmp_path)
    assert rows(tmp_path / COPY) == before
    assert not part.exists()


async def test_without_room_for_the_copy_nothing_is_changed_and_it_says_what_to_do(
    tmp_path: Path,
) -> None:
    recorded = unpack(PACKED, tmp_path)
    whole = (tmp_path / "journal.sqlite3").read_bytes()
    with no_file_longer_than(100_000), pytest.raises(StorageError) as caught:
        async with Memory(tmp_path):
            pass
    assert "Make room for" in caught.value.advice
    assert COPY in caught.value.detail
    assert (tmp_path / "journal.sqlite3").read_bytes() == whole
    assert list(tmp_path.glob("journal.before*")) == []
    assert await told_now(tmp_path) == recorded
