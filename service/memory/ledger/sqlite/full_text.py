"""The lexical index: FTS5 in the ledger's own file, so that both change in one transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence

from service.memory.ledger.protocol import Scored
from service.memory.ledger.sqlite.filtering import conditions
from service.memory.ledger.terms import match_expression, terms
from service.memory.memory_tuning import COMMON_WORD, FREQUENCIES_OUTDATED_BY, WORDS_WITH_PREFIX
from service.memory.protocol import (
    SearchFilters,
)
from service.storage.sqlite_file import SqliteFile

# The terms come ready made, separated by spaces. The `ascii` tokenizer takes them as they are: it
# splits at nothing beyond ASCII, and within ASCII they hold letters and digits only.
FULL_TEXT_SCHEMA = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(terms, tokenize = 'ascii');
CREATE VIRTUAL TABLE IF NOT EXISTS word_counts USING fts5vocab(words, 'row');
"""

_KEPT = 50_000
_AVERAGES_ROW = 1


class FullTextIndex:
    """A `LexicalIndex` by FTS5, ranked by its BM25, with fixed k1 = 1.2 and b = 0.75."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._frequencies = _Frequencies(file)

    def search(
        self, terms: Sequence[str], *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Scored]:
        """See `LexicalIndex.search`. Takes time in proportion to the terms' frequencies."""
        expression = match_expression(terms)
        if expression is None:
            return []
        condition, values = conditions(owner, filters)
        # Segments are looked up in the order of rank, so only as many as it takes: without a LIMIT
        # in the inner query SQLite would look up all of them first.
        rows = self._file.select(
            "SELECT s.id, hits.score FROM ("
            "   SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH ?"
            "   ORDER BY score DESC, rowid DESC LIMIT -1"
            " ) hits CROSS JOIN segments s ON s.id = hits.rowid"
            f" WHERE {condition} LIMIT ?",
            (expression, *values, limit),
        )
        return [Scored(*row) for row in rows]

    def holding_all(self, terms: Iterable[str], *, owner: str, limit: int = 100) -> list[int]:
        """See `LexicalIndex.holding_all`."""
        expression = " ".join(f'"{term}"' for term in terms)
        if not expression:
            return []
        rows = self._file.select(
            "SELECT s.id FROM words CROSS JOIN segments s ON s.id = words.rowid"
            " WHERE words MATCH ? AND s.owner = ? ORDER BY words.rowid DESC LIMIT ?",
            (expression, owner, limit),
        )
        return [row[0] for row in rows]

    def clear(self) -> None:
        """Keep no words in the process's memory."""
        self._frequencies.clear()

    def frequencies(self, terms: Iterable[str]) -> Mapping[str, int]:
        """In how many segments, of all owners, each term stands.

        For common ones it may be a tenth out of date.

        Raises:
            StorageError: the index cannot be read.
        """
        return self._frequencies.of(terms, self.count())

    def count(self) -> int:
        """How many segments, of all owners, are indexed; known at once.

        Raises:
            StorageError: the index cannot be read.
        """
        # SQLite's "averages record": variable-length integers, the first of them the number of
        # rows (fts5_index.c, "AVERAGES RECORD").
        rows = self._file.select("SELECT block FROM words_data WHERE id = ?", (_AVERAGES_ROW,))
        return _first_varint(rows[0][0] if rows else b"")


class _Frequencies:
    """Keeps the counts of common words: counting one means to read all its places.

    Rare words are counted anew each time: that is quick, and a word that was asked for before it
    was first said must be found afterwards.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._cached: dict[str, int] = {}
        self._segments = 0
        self._changing = threading.Lock()

    def of(self, terms: Iterable[str], segments: int) -> dict[str, int]:
        with self._changing:
            if abs(segments - self._segments) > FREQUENCIES_OUTDATED_BY * self._segments:
                self._cached, self._segments = {}, segments
            cached = self._cached
        counts: dict[str, int] = {}
        for term in terms:
            count = cached.get(term)
            if count is None:
                count = self._count(term)
                if count >= COMMON_WORD and len(cached) < _KEPT:
                    cached[term] = count
            counts[term] = count
        return counts

    def clear(self) -> None:
        with self._changing:
            self._cached, self._segments = {}, 0

    def _count(self, term: str) -> int:
        if term.endswith("*"):
            start = term[:-1]
            after = start[:-1] + chr(ord(start[-1]) + 1)
            rows = self._file.select(
                "SELECT sum(doc) FROM"
                " (SELECT doc FROM word_counts WHERE term >= ? AND term < ? LIMIT ?)",
                (start, after, WORDS_WITH_PREFIX),
            )
        else:
            rows = self._file.select("SELECT doc FROM word_counts WHERE term = ?", (term,))
        return int(rows[0][0] or 0) if rows else 0


def index_words(db: sqlite3.Connection, segment: int, text: str) -> None:
    """Index the text of the segment with this number, within the caller's transaction."""
    db.execute("INSERT INTO words(rowid, terms) VALUES (?, ?)", (segment, " ".join(terms(text))))


def forget_words(db: sqlite3.Connection, segments: Iterable[int]) -> None:
    """Remove segments from the index, within the caller's transaction."""
    db.executemany("DELETE FROM words WHERE rowid = ?", [(segment,) for segment in segments])


def _first_varint(block: bytes) -> int:
    """The first integer of a block in SQLite's form: big-endian, seven bits a byte, at most nine
    bytes, of which the last has eight; 0 for an empty block."""
    value = 0
    for place, byte in enumerate(block[:9]):
        if place == 8:
            return value << 8 | byte
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            break
    return value
