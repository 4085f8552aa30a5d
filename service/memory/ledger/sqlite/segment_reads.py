"""Segments as the ledger's rows: by address, by number, by filters, and what stands around them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

from service.domain.anchors import Anchor, AnchorRef, Segment
from service.memory.ledger.protocol import Around, SegmentRow
from service.memory.ledger.sqlite.filtering import PassingRows
from service.memory.protocol import SearchFilters
from service.storage.sqlite_file import Row, SqliteFile

SEGMENT_COLUMNS = "run_loop_id, iteration, segment, type, timestamp, text, owner, call_id"
"""What `segment_from_row` reads, in its order."""
# The index on (owner, run loop, iteration, segment) alone answers this: no text is read.
_BESIDE = """(SELECT group_concat(id) FROM (
    SELECT n.id FROM segments AS n
    WHERE n.owner = f.owner AND n.run_loop_id = f.run_loop_id
      AND (n.iteration, n.segment) {side} (f.iteration, f.segment)
    ORDER BY n.iteration {direction}, n.segment {direction} LIMIT {limit}))"""
NEIGHBOURS = f"""
SELECT f.id, {_BESIDE.format(side="<", direction="DESC", limit=":before")},
    {_BESIDE.format(side=">", direction="ASC", limit=":after")}
FROM json_each(:numbers) AS asked
CROSS JOIN segments AS f ON f.id = asked.value AND f.owner = :owner
"""
"""For segments by their numbers: those before and after each, by their numbers."""
# FTS5 keeps what it was given in a table of its own, which is read twice as fast as the index:
# https://sqlite.org/fts5.html#fts5_data_structures
_ROWS = """
SELECT s.id, s.run_loop_id, s.iteration, s.segment, s.type, s.at, {words}
FROM json_each(:numbers) AS asked
CROSS JOIN segments AS s ON s.id = asked.value
LEFT JOIN words_content AS w ON w.id = s.id
WHERE s.owner = :owner
"""
_WITH_WORDS = "s.text, ifnull(w.c0, '')"
_WITHOUT_WORDS = "'', ''"


_FIRST_PAGE = 4
_LONGEST_PAGE = 256


class SqliteSegments:
    """A `SegmentReader` over the tables of the ledger."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def at(self, refs: Iterable[AnchorRef], *, owner: str) -> Mapping[AnchorRef, Segment]:
        """The segments at these anchors; those that this owner does not have are left out."""
        refs_json = json.dumps([[*ref] for ref in refs])
        rows = self._file.select(
            f"SELECT {SEGMENT_COLUMNS}"
            " FROM (SELECT value FROM json_each(?)) AS refs CROSS JOIN segments"
            " WHERE owner = ? AND run_loop_id = json_extract(refs.value, '$[0]')"
            " AND iteration = json_extract(refs.value, '$[1]')"
            " AND segment = json_extract(refs.value, '$[2]')",
            (refs_json, owner),
        )
        return {segment.anchor.ref: segment for segment in map(segment_from_row, rows)}

    def numbered(self, numbers: Iterable[int], *, owner: str) -> Mapping[int, Segment]:
        """The segments in these rows; those that this owner does not have are left out."""
        rows = self._file.select(
            f"SELECT id, {SEGMENT_COLUMNS} FROM segments"
            " WHERE owner = ? AND id IN (SELECT value FROM json_each(?))",
            (owner, json.dumps([*numbers])),
        )
        return {row[0]: segment_from_row(row[1:]) for row in rows}

    def passing(self, owner: str, filters: SearchFilters) -> PassingRows:
        """The segments of an owner that pass the filters of a search; nothing is read yet."""
        return PassingRows(self._file, owner, filters)

    def neighbours(
        self,
        numbers: Iterable[int],
        *,
        owner: str,
        before: int,
        after: int,
        words: bool = True,
    ) -> Mapping[int, Around]:
        """See `SegmentReader.neighbours`."""
        asked = list(dict.fromkeys(numbers))
        values = {"numbers": json.dumps(asked), "owner": owner, "before": before, "after": after}
        beside = {
            focus: (_numbers(earlier), _numbers(later))
            for focus, earlier, later in self._file.select(NEIGHBOURS, values)
        }
        needed = {*beside, *(n for sides in beside.values() for side in sides for n in side)}
        rows = self.rows(needed, owner=owner, words=words)
        # What was replaced between the two queries is not there any more.
        return {
            number: Around(
                rows[number],
                sorted((rows[each] for each in beside[number][0] if each in rows), key=_place)[
                    ::-1
                ],
                sorted((rows[each] for each in beside[number][1] if each in rows), key=_place),
            )
            for number in asked
            if number in rows
        }

    def rows(
        self, numbers: Iterable[int], *, owner: str, words: bool = True
    ) -> Mapping[int, SegmentRow]:
        """Segments by their numbers; those that this owner does not have are left out.

        Raises:
            StorageError: the ledger cannot be read.
        """
        query = _ROWS.format(words=_WITH_WORDS if words else _WITHOUT_WORDS)
        values = {"numbers": json.dumps([*numbers]), "owner": owner}
        return {
            number: SegmentRow(number, AnchorRef(loop, iteration, index), kind, at, text, terms)
            for number, loop, iteration, index, kind, at, text, terms in self._file.select(
                query, values
            )
        }

    def before(self, ref: AnchorRef, *, owner: str) -> Iterator[Segment]:
        """The segments of the same run loop that stand before `ref`, nearest first, as needed."""
        return self._from(ref, owner, "<", "DESC")

    def after(self, ref: AnchorRef, *, owner: str) -> Iterator[Segment]:
        """The segments of the same run loop that stand after `ref`, nearest first, as needed."""
        return self._from(ref, owner, ">", "ASC")

    def _from(self, ref: AnchorRef, owner: str, side: str, direction: str) -> Iterator[Segment]:
        run_loop_id, *place = ref
        page = _FIRST_PAGE
        while True:
            rows = self._file.select(
                f"SELECT {SEGMENT_COLUMNS} FROM segments"
                f" WHERE owner = ? AND run_loop_id = ? AND (iteration, segment) {side} (?, ?)"
                f" ORDER BY iteration {direction}, segment {direction} LIMIT ?",
                (owner, run_loop_id, *place, page),
            )
            for piece in map(segment_from_row, rows):
                yield piece
                place = [*piece.anchor.ref[1:]]
            if len(rows) < page:
                return
            page = min(4 * page, _LONGEST_PAGE)

    def partners(
        self, refs: Iterable[AnchorRef], *, owner: str
    ) -> Mapping[AnchorRef, tuple[Anchor, ...]]:
        """See `SegmentReader.partners`."""
        asked = set(refs)
        iterations = {ref[:2] for ref in asked}
        rows = self._file.select(
            "SELECT run_loop_id, iteration, call_id, segments.type, segment, timestamp"
            " FROM json_each(?) AS asked CROSS JOIN segments"
            " WHERE owner = ? AND run_loop_id = json_extract(asked.value, '$[0]')"
            " AND iteration = json_extract(asked.value, '$[1]') AND call_id IS NOT NULL"
            " ORDER BY run_loop_id, iteration, segment",
            (json.dumps([[*each] for each in iterations]), owner),
        )
        by_ref: dict[AnchorRef, tuple[Anchor, ...]] = {}
        texts = [
            (text, [_anchor(row) for row in pieces])
            for text, pieces in groupby(rows, key=lambda row: row[:4])
        ]
        # The segmenter puts a result right after its call, also where an id is used twice.
        for (call, call_pieces), (result, result_pieces) in pairwise(texts):
            if call[:3] == result[:3] and (call[3], result[3]) == ("tool_call", "tool_result"):
                for pieces, partner in (
                    (call_pieces, result_pieces[0]),
                    (result_pieces, call_pieces[0]),
                ):
                    by_ref.update({p.ref: (partner,) for p in pieces if p.ref in asked})
        return by_ref


def _place(row: SegmentRow) -> AnchorRef:
    return row.ref


def _numbers(joined: str | None) -> list[int]:
    return [int(number) for number in joined.split(",")] if joined else []


def _anchor(row: Row) -> Anchor:
    run_loop_id, iteration, _, segment_type, segment, timestamp = row
    return Anchor(
        run_loop_id=run_loop_id,
        iteration_index=iteration,
        segment_index=segment,
        segment_type=segment_type,
        timestamp=datetime.fromisoformat(timestamp),
    )


def segment_from_row(row: Sequence[Any]) -> Segment:
    """The segment of a row of `SEGMENT_COLUMNS`."""
    run_loop_id, iteration, index, segment_type, timestamp, text, owner, call_id = row
    return Segment(
        anchor=Anchor(
            run_loop_id=run_loop_id,
            iteration_index=iteration,
            segment_index=index,
            segment_type=segment_type,
            timestamp=datetime.fromisoformat(timestamp),
        ),
        content=text,
        owner=owner,
        call_id=call_id,
    )
