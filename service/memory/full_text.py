"""The lexical index: FTS5 in the ledger's own file, so that both change in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from service.domain.anchors import AnchorRef
from service.memory.lexical import match_expression, terms
from service.memory.protocol import Candidate, SearchFilters
from service.memory.segment_rows import epoch
from service.memory.sqlite import SqliteFile

# The terms come ready made, separated by spaces. The `ascii` tokenizer takes them as they are: it
# splits at nothing beyond ASCII, and within ASCII they hold letters and digits only.
FULL_TEXT_SCHEMA = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(terms, tokenize = 'ascii');
"""


class FullTextIndex:
    """A `LexicalIndex` ranked by BM25, with FTS5's fixed k1 = 1.2 and b = 0.75."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def search(
        self, query: str, *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        """See `LexicalIndex.search`."""
        expression = match_expression(query)
        if expression is None:
            return []
        condition, values = _condition(filters)
        rows = self._file.select(
            "SELECT s.run_loop_id, s.iteration, s.segment, -bm25(words) AS score"
            " FROM words JOIN segments s ON s.id = words.rowid"
            f" WHERE words MATCH ? AND s.owner = ?{condition}"
            " ORDER BY score DESC, s.id LIMIT ?",
            (expression, owner, *values, limit),
        )
        return [Candidate(AnchorRef(*row[:3]), row[3]) for row in rows]


def index_words(db: sqlite3.Connection, segment: int, text: str) -> None:
    """Index the text of the segment with this number, within the caller's transaction."""
    db.execute("INSERT INTO words(rowid, terms) VALUES (?, ?)", (segment, " ".join(terms(text))))


def forget_words(db: sqlite3.Connection, segments: Iterable[int]) -> None:
    """Remove segments from the index, within the caller's transaction."""
    db.executemany("DELETE FROM words WHERE rowid = ?", [(segment,) for segment in segments])


def _condition(filters: SearchFilters) -> tuple[str, list[str | float]]:
    condition, values = "", list[str | float]()
    if filters.types is not None:
        condition += f" AND s.type IN ({', '.join('?' * len(filters.types))})"
        values += sorted(filters.types)
    if filters.since is not None:
        condition += " AND s.at >= ?"
        values.append(epoch(filters.since))
    if filters.until is not None:
        condition += " AND s.at < ?"
        values.append(epoch(filters.until))
    if filters.run_loop_id is not None:
        condition += " AND s.run_loop_id = ?"
        values.append(filters.run_loop_id)
    return condition, values
