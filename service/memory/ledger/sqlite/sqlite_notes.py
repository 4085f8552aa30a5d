"""Notes: sentences on a person, a project or a topic, each citing the segments that it rests on.

Only consolidation writes them. They are found by their words and by the names of their subjects;
they have no vectors, as there are few of them and each repeats its subject.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

from service.domain.anchors import Anchor, MemoryNote, NoteSentence
from service.domain.errors import NotFoundError
from service.memory.ledger.notes import NewSentences, UnreadSegment
from service.memory.ledger.sqlite.note_tables import (
    write_note,
)
from service.memory.ledger.sqlite.segment_reads import SEGMENT_COLUMNS, segment_from_row
from service.memory.ledger.terms import content_terms
from service.memory.memory_tuning import (
    NOTE_LEAST_SHARE,
    NOTES_FOUND,
    NOTES_FOUND_SENTENCES,
)
from service.storage.sqlite_file import Row, SqliteFile

_SAID = "'user_message', 'response'"
"""What notes are written from: not what tools gave, nor what a model thought to itself."""
_UNREAD = (
    "FROM segments AS s WHERE s.owner = ? AND s.id > ?"
    f" AND s.type IN ({_SAID})"
    " AND NOT EXISTS (SELECT 1 FROM notes_read AS r WHERE r.owner = s.owner"
    " AND r.run_loop_id = s.run_loop_id AND r.iteration = s.iteration"
    " AND r.segment = s.segment AND r.text_hash = s.text_hash)"
)


class SqliteNotes:
    """Reads and writes the notes in the ledger's file. The methods block, and may be called from
    any thread; all raise StorageError when the disk refuses.
    """

    def __init__(self, file: SqliteFile, writing: threading.Lock) -> None:
        self._file = file
        self._writing = writing
        self._there: bool | None = None
        self._read_up_to: dict[str, int] = {}
        """By owner: a number up to which every segment was read; only ever grows."""

    # --- reading

    def of(self, owner: str) -> list[MemoryNote]:
        """All notes of an owner, those written last first."""
        return self._notes("n.owner = ?", (owner,), order="n.written_at DESC, n.id, s.id")

    def search(self, query: str, *, owner: str, limit: int = NOTES_FOUND) -> list[MemoryNote]:
        """See `NoteStore.search`."""
        if not self.any():
            return []
        terms = content_terms(query)
        if not terms:
            return []
        matches = self._matches(terms, owner)
        if not matches:
            return []
        marks = ", ".join("?" * len(matches))
        named: dict[str, bool] = {}
        scores: dict[str, float] = defaultdict(float)
        chosen: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for sentence, note, subject in self._file.select(
            "SELECT s.id, n.id, n.subject FROM note_sentences s JOIN notes n ON n.id = s.note"
            f" WHERE s.id IN ({marks})",
            tuple(matches),
        ):
            if note not in named:
                about = content_terms(subject)
                named[note] = bool(about) and about <= terms
            share, score = matches[sentence]
            if named[note] or share >= NOTE_LEAST_SHARE:
                scores[note] = max(scores[note], score + named[note])
                chosen[note].append((-score, sentence))
        best = sorted(scores, key=lambda note: (-scores[note], note))[:limit]
        sentences = [
            number for note in best for _, number in sorted(chosen[note])[:NOTES_FOUND_SENTENCES]
        ]
        notes = self._notes(
            f"s.id IN ({', '.join('?' * len(sentences))})", sentences, order="n.id, s.id"
        )
        return sorted(notes, key=lambda note: best.index(note.id))

    def may_be_there(self) -> bool:
        """False once it is known that there are no notes. Asks nobody."""
        return self._there is not False

    def any(self) -> bool:
        """Whether there are notes at all. Asks the file only once while there are none."""
        if self._there is None:
            rows = self._file.select("SELECT EXISTS (SELECT 1 FROM notes)")
            self._there = bool(rows[0][0])
        return self._there

    # --- what is to be read

    def newest_segment(self) -> int:
        """The number of the newest segment of all owners; it grows whenever there is a new one."""
        rows = self._file.select("SELECT coalesce(max(id), 0) FROM segments")
        return int(rows[0][0])

    def owners(self) -> list[str]:
        """Everyone who has anything remembered."""
        rows = self._file.select("SELECT DISTINCT owner FROM run_loops ORDER BY owner")
        return [row[0] for row in rows]

    def unread(self, owner: str, *, limit: int) -> list[UnreadSegment]:
        """What was said and not yet read for notes, in the order in which it came to memory."""
        read_up_to = self._read_up_to.get(owner, 0)
        columns = ", ".join(f"s.{name}" for name in SEGMENT_COLUMNS.split(", "))
        rows = self._file.select(
            f"SELECT s.id, s.text_hash, {columns} {_UNREAD} ORDER BY s.id LIMIT ?",
            (owner, read_up_to, limit),
        )
        if rows:
            self._read_up_to[owner] = max(read_up_to, rows[0][0] - 1)
        return [UnreadSegment(row[0], row[1], segment_from_row(row[2:])) for row in rows]

    def unread_count(self, owner: str, *, most: int) -> int:
        """How many segments are unread; counts up to `most`."""
        rows = self._file.select(
            f"SELECT count(*) FROM (SELECT 1 {_UNREAD} LIMIT ?)",
            (owner, self._read_up_to.get(owner, 0), most),
        )
        return int(rows[0][0])

    # --- writing

    def write(
        self,
        owner: str,
        notes: Iterable[NewSentences],
        *,
        read: Sequence[UnreadSegment],
        at: datetime | None = None,
    ) -> int:
        """See `NoteStore.write`."""
        moment = (at or datetime.now(UTC)).isoformat()
        added = 0
        with self._writing, self._file.transaction(durable=False) as db:
            for each in notes:
                added += write_note(db, owner, each, moment)
            db.executemany(
                "INSERT OR REPLACE INTO notes_read"
                " SELECT owner, run_loop_id, iteration, segment, text_hash FROM segments"
                " WHERE id = ? AND text_hash = ?",
                [(each.number, each.text_hash) for each in read],
            )
        if added:
            self._there = True
        return added

    def remove(self, note_id: str, *, owner: str) -> MemoryNote:
        """See `NoteStore.remove`."""
        notes = self._notes("n.owner = ? AND n.id = ?", (owner, note_id), order="s.id")
        if not notes:
            raise NotFoundError(
                f"there is no note {note_id}", advice="`rondo memory notes` lists them."
            )
        with self._writing, self._file.transaction(durable=False) as db:
            db.execute("DELETE FROM note_sentences WHERE note = ?", (note_id,))
        return notes[0]

    # --- helpers

    def _matches(self, terms: Collection[str], owner: str) -> dict[int, tuple[float, float]]:
        """By sentence: which share of the wanted terms it has, and the same weighed by rarity."""
        rows = self._file.select(
            "SELECT term, sentence FROM note_terms"
            " WHERE owner = ? AND term IN (SELECT value FROM json_each(?))",
            (owner, json.dumps(sorted(terms))),
        )
        spread = Counter(term for term, _ in rows)
        weights = {term: 1 / math.log2(1 + count) for term, count in spread.items()}
        counts: Counter[int] = Counter()
        weighed: dict[int, float] = defaultdict(float)
        for term, sentence in rows:
            counts[sentence] += 1
            weighed[sentence] += weights[term]
        total = len(terms)
        best = sorted(weighed, key=lambda number: -weighed[number])[: 100 * NOTES_FOUND]
        return {number: (counts[number] / total, weighed[number] / total) for number in best}

    def _notes(self, condition: str, values: Sequence[object], *, order: str) -> list[MemoryNote]:
        rows = self._file.select(
            "SELECT n.id, n.owner, n.kind, n.subject, n.written_at, s.id, s.text"
            " FROM notes n JOIN note_sentences s ON s.note = n.id"
            f" WHERE {condition} ORDER BY {order}",
            values,
        )
        cited = self._citations([row[5] for row in rows])
        sentences: dict[str, list[NoteSentence]] = {}
        heads: dict[str, Row] = {}
        for row in rows:
            heads.setdefault(row[0], row)
            sentences.setdefault(row[0], []).append(
                NoteSentence(text=row[6], anchors=tuple(cited.get(row[5], ())))
            )
        return [
            MemoryNote(
                id=note,
                owner=head[1],
                kind=head[2],
                subject=head[3],
                sentences=tuple(sentences[note]),
                written_at=datetime.fromisoformat(head[4]),
            )
            for note, head in heads.items()
        ]

    def _citations(self, sentences: Sequence[int]) -> dict[int, list[Anchor]]:
        rows = self._file.select(
            "SELECT sentence, run_loop_id, iteration, segment, type, timestamp FROM note_citations"
            " WHERE shown AND sentence IN (SELECT value FROM json_each(?))"
            " ORDER BY sentence, timestamp, run_loop_id, iteration, segment",
            (json.dumps(sentences),),
        )
        cited: dict[int, list[Anchor]] = defaultdict(list)
        for sentence, run_loop_id, iteration, segment, segment_type, timestamp in rows:
            cited[sentence].append(
                Anchor(
                    run_loop_id=run_loop_id,
                    iteration_index=iteration,
                    segment_index=segment,
                    segment_type=segment_type,
                    timestamp=datetime.fromisoformat(timestamp),
                )
            )
        return cited
