"""What forgetting asks of the journal's tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from service.domain.history.state import RunLoopState
from service.memory.journal.imported_loops import IMPORTED
from service.storage.clock import millis_of, moment_of
from service.storage.sqlite_file import SqliteFile, Where


class HistorySearch:
    """`Histories` in the journal's tables."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def owner_of(self, run_loop_id: str) -> str | None:
        """Whose a run loop is; None when there is none of this id."""
        rows = self._file.select("SELECT owner FROM run_loops WHERE id = ?", (run_loop_id,))
        return rows[0][0] if rows else None

    def ids(
        self, owner: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[str]:
        """The ids of an owner's run loops that something may have happened in within a time."""
        where = Where("owner = ?", owner)
        # An imported loop is brought up to date later than it happened, never earlier.
        where.add("max(updated_at, coalesce(completed_at, 0)) >= ?", since and millis_of(since))
        where.add("created_at < ?", until and millis_of(until))
        rows = self._file.select(
            f"SELECT id FROM run_loops {where} ORDER BY created_at, id", where.values
        )
        return [row[0] for row in rows]

    def imported(self, run_loop_ids: Iterable[str]) -> frozenset[str]:
        """Which of these run loops came in from a file."""
        rows = self._file.select(
            "SELECT DISTINCT run_loop_id FROM events WHERE run_loop_id IN"
            " (SELECT value FROM json_each(?)) AND instr(body, ?) = 1",
            (json.dumps(sorted(run_loop_ids)), IMPORTED),
        )
        return frozenset(row[0] for row in rows)

    def holding(self, owner: str, forms: Iterable[str]) -> list[str]:
        """See `Histories.holding`."""
        run_loop_ids: dict[str, None] = {}
        for form in forms:
            # LIKE takes capitals as small letters in ASCII alone; any character stands for others.
            wide = "".join(each if each.isascii() or not _has_case(each) else "_" for each in form)
            pattern = "".join(
                f"!{each}" if each in "!%" or (each == "_" and was == "_") else each
                for each, was in zip(wide, form, strict=True)
            )
            rows = self._file.select(
                "SELECT DISTINCT run_loop_id FROM events"
                " WHERE owner = ? AND body LIKE ? ESCAPE '!'",
                (owner, f"%{pattern}%"),
            )
            run_loop_ids.update(dict.fromkeys(row[0] for row in rows))
        return list(run_loop_ids)

    def unread_state(self, run_loop_id: str) -> RunLoopState:
        """What lists tell of a run loop whose history cannot be read."""
        row = self._file.select(
            "SELECT owner, goal, status, created_at, updated_at, coalesce("
            "(SELECT max(seq) FROM events WHERE run_loop_id = run_loops.id), 0)"
            " FROM run_loops WHERE id = ?",
            (run_loop_id,),
        )[0]
        return RunLoopState(
            id=run_loop_id,
            owner=row[0],
            goal=row[1],
            status=row[2],
            created_at=moment_of(row[3]),
            updated_at=moment_of(row[4]),
            last_seq=row[5],
        )


def _has_case(character: str) -> bool:
    return character.casefold() != character or character.upper() != character
