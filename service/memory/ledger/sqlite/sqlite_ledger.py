"""The ledger: every remembered run loop, whole, and the segments that it was cut into.

It is derived from the journal and can be rebuilt from it. Archiving a run loop is one transaction
over loop, segments and words; archiving it again changes nothing, and a loop that has grown brings
in what is new, in time for that.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from service.domain.anchors import Segment
from service.domain.run_loops import ACTIVE, Iteration, RunLoop, RunLoopSummary, epoch
from service.memory.journal.event_reader import Outline
from service.memory.ledger.protocol import Gone
from service.memory.ledger.segmenter import segments_of
from service.memory.ledger.sqlite.embedding_rows import (
    DROP_SUMS_OF_SCHEMA_2,
    EMBEDDING_SCHEMA,
    WITHOUT_ADDRESSES_OF_SCHEMA_4,
    SqliteEmbeddings,
)
from service.memory.ledger.sqlite.fact_rows import FACTS_SCHEMA, SqliteFacts
from service.memory.ledger.sqlite.full_text import FULL_TEXT_SCHEMA, FullTextIndex
from service.memory.ledger.sqlite.loop_rows import (
    ARCHIVE_SCHEMA,
    DROP_ALL_OF_SCHEMA_1,
    RECUT_TOOL_RESULTS_OF_SCHEMA_3,
    Cut,
    LoopRow,
    Written,
    digest_of,
    forget,
    loop_row,
    write,
    written,
)
from service.memory.ledger.sqlite.note_tables import NOTES_SCHEMA
from service.memory.ledger.sqlite.pending_table import DROP_PENDING, PENDING_SCHEMA, PendingTable
from service.memory.ledger.sqlite.segment_reads import SqliteSegments
from service.memory.ledger.sqlite.sqlite_notes import SqliteNotes
from service.storage.clock import millis_of
from service.storage.sqlite_file import SqliteFile

_VERSION = 6
_LOOPS_KEPT_IN_MIND = 1_000


@dataclass(frozen=True, slots=True)
class _Archived:
    """An open loop as it was archived last: what is still the same needs no second look."""

    digest: str
    iterations: tuple[Iteration, ...]
    digests: tuple[str, ...]

    def unchanged_in(self, run_loop: RunLoop) -> int:
        """How many iterations of the loop, from the first on, are the very same objects."""
        count = 0
        for before, now in zip(self.iterations, run_loop.iterations, strict=False):
            if before is not now:
                break
            count += 1
        return count


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A run loop, ready to be written."""

    run_loop: RunLoop
    stored: str | None
    """The digest of what was there when it was looked at."""
    row: LoopRow
    tail: Mapping[int, Written]
    pieces: Mapping[int, Sequence[Segment]]
    archived: _Archived

    @property
    def key(self) -> tuple[str, str]:
        return (self.run_loop.owner, self.run_loop.id)

    @property
    def is_new(self) -> bool:
        return self.row.digest != self.stored


def count_run_loops(path: Path) -> int:
    """How many run loops a ledger of whatever schema holds; 0 when it cannot be read."""
    if not path.is_file():
        return 0
    try:
        with closing(sqlite3.connect(path)) as db:
            count: int = db.execute("SELECT count(*) FROM run_loops").fetchone()[0]
    except sqlite3.DatabaseError:
        return 0  # whoever opens it will tell
    return count


class SqliteLedger:
    """A `Ledger` in one SQLite file, with all that is kept beside it.

    The methods block and may be called from any thread; all raise StorageError when the disk
    refuses.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(
            path,
            ARCHIVE_SCHEMA
            + FULL_TEXT_SCHEMA
            + EMBEDDING_SCHEMA
            + FACTS_SCHEMA
            + NOTES_SCHEMA
            + PENDING_SCHEMA,
            when_damaged=f"Stop the daemon, move {path.name}* out of {path.parent}, and start it"
            " again: finished run loops are brought in anew from the journal.",
            version=_VERSION,
            upgrades={
                1: DROP_ALL_OF_SCHEMA_1 + DROP_PENDING,
                2: DROP_SUMS_OF_SCHEMA_2,
                3: RECUT_TOOL_RESULTS_OF_SCHEMA_3 + DROP_PENDING,
                4: WITHOUT_ADDRESSES_OF_SCHEMA_4,
            },
        )
        self._writing = threading.Lock()
        self._in_mind: dict[tuple[str, str], _Archived] = {}
        self.words = FullTextIndex(self._file)
        """The lexical index over the segments."""
        self.embedding = SqliteEmbeddings(self._file, self._writing)
        """Which segments have their vectors."""
        self.pending = PendingTable(self._file, self._writing)
        """How far the change feed was read, and what of it is yet to be archived."""
        self.facts = SqliteFacts(self._file)
        """What people asked to be remembered."""
        self.notes = SqliteNotes(self._file, self._writing)
        """What consolidation has written."""
        self.segments = SqliteSegments(self._file)
        """The segments that run loops were cut into."""

    def open(self) -> None:
        """Open the file, or create it."""
        self._file.open()

    def close(self) -> None:
        """Close the file, after the write that is under way."""
        with self._writing:
            self._in_mind.clear()
            self._file.close()

    def archive(self, *run_loops: RunLoop, cut: Cut = segments_of) -> int:
        """Remember run loops as they are now, each id at most once, in one transaction.

        Of a loop that was archived while it was open, iterations that are still the same objects
        are neither read, cut nor written again.

        Args:
            run_loops: as they are now.
            cut: gives the segments of one iteration; called for those that are new or changed.

        Returns:
            How many segments are new or changed; 0 when the loops were known just so.

        Raises:
            InvalidInputError: the text of one is not valid Unicode; none was written.
        """
        changed = 0
        left = list(run_loops)
        while left:
            # Cutting is the long part, so it is done before the lock is taken.
            prepared = [self._prepare(run_loop, cut) for run_loop in left]
            missed = list[RunLoop]()
            if any(each.is_new for each in prepared):
                with self._writing:
                    with self._file.transaction(durable=False) as db:
                        for each in prepared:
                            if not each.is_new:
                                continue
                            if digest_of(db, each.key) != each.stored:
                                missed.append(each.run_loop)  # another write has come in between
                                continue
                            changed += write(db, each.run_loop, each.row, each.tail, each.pieces)
                    self._file.checkpoint()
            again = {(each.owner, each.id) for each in missed}
            for each in prepared:
                if each.key not in again:
                    self._keep_in_mind(each.run_loop, each.archived)
            left = missed
        return changed

    def _prepare(self, run_loop: RunLoop, cut: Cut) -> _Prepared:
        key = (run_loop.owner, run_loop.id)
        stored = self._digest(key)
        last = self._in_mind.get(key)
        if last is not None and last.digest != stored:
            last = None  # somebody else has written or forgotten something meanwhile
        first = last.unchanged_in(run_loop) if last else 0
        tail = {
            index: written(run_loop.id, run_loop.iterations[index])
            for index in range(first, len(run_loop.iterations))
        }
        digests = (
            *(last.digests[:first] if last else ()),
            *(each.digest for each in tail.values()),
        )
        row = loop_row(run_loop, digests)
        pieces: dict[int, Sequence[Segment]] = {}
        if row.digest != stored:
            stored_digests = self._iteration_digests(key, first) if stored is not None else {}
            pieces = {
                index: cut(run_loop, index)
                for index, each in tail.items()
                if stored_digests.get(index) != each.digest
            }
        archived = _Archived(row.digest, run_loop.iterations, digests)
        return _Prepared(run_loop, stored, row, tail, pieces, archived)

    def forget(self, owner: str, run_loop_ids: Sequence[str], changed: Sequence[RunLoop]) -> Gone:
        """See `Ledger.forget`."""
        with self._writing:
            with self._file.transaction(durable=True) as db:
                gone = forget(db, owner, run_loop_ids, changed)
            for run_loop_id in (*run_loop_ids, *(each.id for each in changed)):
                self._in_mind.pop((owner, run_loop_id), None)
        self.words.clear()
        return gone

    def scrub(self) -> bool:
        """Write the file anew without what was deleted; whether its log could be emptied too."""
        with self._writing:
            return self._file.scrub()

    def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """A remembered run loop; None when this owner has none of that id."""
        # One query, so that what it gives was true at one moment.
        rows = self._file.select(
            "SELECT -1 AS place, summary FROM run_loops WHERE owner = ?1 AND id = ?2 UNION ALL"
            " SELECT iteration, whole FROM iterations WHERE owner = ?1 AND run_loop_id = ?2"
            " ORDER BY place",
            (owner, run_loop_id),
        )
        if not rows:
            return None
        (_, summary), *iterations = rows
        head = RunLoopSummary.model_validate_json(summary)
        return RunLoop(
            id=head.id,
            owner=head.owner,
            goal=head.goal,
            status=head.status,
            iterations=tuple(Iteration.model_validate_json(whole) for _, whole in iterations),
            created_at=head.created_at,
            completed_at=head.completed_at,
            predecessor_id=head.predecessor_id,
        )

    def summary(self, run_loop_id: str, *, owner: str) -> RunLoopSummary | None:
        """A remembered run loop without its words; None when this owner has none of that id."""
        for (summary,) in self._file.select(
            "SELECT summary FROM run_loops WHERE owner = ? AND id = ?", (owner, run_loop_id)
        ):
            return RunLoopSummary.model_validate_json(summary)
        return None

    def successors(self, run_loop_id: str, *, owner: str) -> list[RunLoopSummary]:
        """The remembered run loops that took this one up again, or forked from it; oldest first."""
        rows = self._file.select(
            "SELECT summary FROM run_loops WHERE owner = ? AND predecessor_id = ?",
            (owner, run_loop_id),
        )
        summaries = [RunLoopSummary.model_validate_json(summary) for (summary,) in rows]
        return sorted(summaries, key=lambda each: (epoch(each.created_at), each.id))

    def finished(self, run_loop_ids: Iterable[str]) -> frozenset[str]:
        """Which of these run loops, of whatever owner, are remembered and can change no more."""
        marks = ", ".join("?" * len(ACTIVE))
        rows = self._file.select(
            "SELECT id FROM run_loops WHERE id IN (SELECT value FROM json_each(?))"
            f" AND status NOT IN ({marks})",
            (json.dumps(list(run_loop_ids)), *ACTIVE),
        )
        return frozenset(row[0] for row in rows)

    def outlines(self) -> dict[tuple[str, str], Outline]:
        """How far all remembered run loops, of all owners, have come; by owner and id."""
        rows = self._file.select(
            "SELECT owner, id, status, json_extract(summary, '$.iteration_count'),"
            " json_extract(summary, '$.completed_at') FROM run_loops"
        )
        return {
            (owner, run_loop_id): Outline(
                owner,
                run_loop_id,
                status,
                count,
                ended and millis_of(datetime.fromisoformat(ended)),
            )
            for owner, run_loop_id, status, count, ended in rows
        }

    def count(self) -> tuple[int, int]:
        """How many run loops and segments there are, of all owners."""
        rows = self._file.select(
            "SELECT (SELECT count(*) FROM run_loops), (SELECT count(*) FROM segments)"
        )
        return rows[0][0], rows[0][1]

    def _digest(self, key: tuple[str, str]) -> str | None:
        rows = self._file.select("SELECT digest FROM run_loops WHERE owner = ? AND id = ?", key)
        return rows[0][0] if rows else None

    def _iteration_digests(self, key: tuple[str, str], first: int) -> dict[int, str]:
        rows = self._file.select(
            "SELECT iteration, digest FROM iterations"
            " WHERE owner = ? AND run_loop_id = ? AND iteration >= ?",
            (*key, first),
        )
        return dict(rows)

    def _keep_in_mind(self, run_loop: RunLoop, archived: _Archived) -> None:
        key = (run_loop.owner, run_loop.id)
        with self._writing:
            self._in_mind.pop(key, None)
            if run_loop.is_active:
                self._in_mind[key] = archived
            if len(self._in_mind) > _LOOPS_KEPT_IN_MIND:
                del self._in_mind[next(iter(self._in_mind))]
