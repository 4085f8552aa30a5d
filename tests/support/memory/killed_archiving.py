"""Archives run loops until it is killed, and checks what a ledger holds afterwards.

As a program: ``python -m tests.support.memory.killed_archiving FOLDER``; tells each loop that it
has done.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from service.domain.run_loops import RunLoop
from service.memory.ledger.segmenter import segment
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from tests.support.memory.remembering import run_loop, tool_turn

LOOPS = 30


def loop_at(number: int, stage: int) -> RunLoop:
    """A loop as it is at first, grown, and with an iteration that has changed since."""
    turns = [
        (f"question {number} {turn}", f"An answer. 一个回答。{turn} " * (1 + 40 * (turn % 3)))
        for turn in range(2 + 2 * stage)
    ]
    if stage == 2:
        turns[0] = (f"another question {number}", "short")
    work = tool_turn("look", "find", "{}", f"found {number} " * 50, "done")
    return run_loop(f"loop{number}", *turns, work, status="completed" if stage == 2 else "idle")


def archive_all(folder: Path) -> None:
    """Archive each loop three times, as it grows; says so after each."""
    ledger = SqliteLedger(folder / "memory.sqlite3")
    ledger.open()
    for number in range(LOOPS):
        for stage in range(3):
            ledger.archive(loop_at(number, stage))
            print(number, stage, flush=True)
    ledger.close()


def check(folder: Path, last_archived: tuple[int, int] | None) -> None:
    """See that a ledger holds what was told to be archived, each loop in one of its stages."""
    path = folder / "memory.sqlite3"
    ledger = SqliteLedger(path)
    ledger.open()
    last = -1 if last_archived is None else 3 * last_archived[0] + last_archived[1]
    for number in range(LOOPS):
        archived_loop = ledger.run_loop(f"loop{number}", owner="me")
        least = min(last - 3 * number, 2)
        stages = range(max(least, 0), 3)
        if archived_loop is None:
            assert least < 0, f"loop {number} is lost"
            continue
        assert archived_loop in [loop_at(number, stage) for stage in stages]
        segments = {piece.anchor.ref: piece for piece in segment(archived_loop)}
        assert ledger.segments.at(segments, owner="me") == segments
    ledger.close()
    check_words(path)


def check_words(path: Path) -> None:
    """See that segments, iterations and words agree, and that FTS5 finds itself sound."""
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        segments = {row[0] for row in db.execute("SELECT id FROM segments")}
        assert {row[0] for row in db.execute("SELECT rowid FROM words")} == segments
        anchors = "SELECT count(*), count(DISTINCT owner || run_loop_id || ':' || iteration"
        counts = db.execute(f"{anchors} || '.' || segment) FROM segments").fetchone()
        assert counts[0] == counts[1] == len(segments)
        beyond = "SELECT count(*) FROM segments s WHERE NOT EXISTS (SELECT 1 FROM iterations i"
        same = "i.owner = s.owner AND i.run_loop_id = s.run_loop_id AND i.iteration = s.iteration"
        assert db.execute(f"{beyond} WHERE {same})").fetchone() == (0,)


if __name__ == "__main__":
    archive_all(Path(sys.argv[1]))
