"""What a search is narrowed to, as SQL over the ledger's segments: exact, whatever else searches.

The vector index knows nothing of filters. Where few segments pass, their vectors are compared one
by one; where many do, what the index offers is sifted. `PassingRows` answers both questions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from service.domain.errors import InvalidInputError
from service.domain.run_loops import epoch
from service.memory.memory_tuning import DISTINCT_METADATA
from service.memory.protocol import SearchFilters
from service.storage.sqlite_file import SqliteFile

SqlValue = str | int | float

_EXACT_INTEGERS = 10**15
_LARGEST_INTEGER = 2**63 - 1
# Skips from each value to the next by the index: https://sqlite.org/lang_with.html
_DISTINCT_METADATA = f"""
WITH RECURSIVE known(metadata) AS (
    SELECT min(metadata) FROM segments WHERE owner = ? AND metadata IS NOT NULL
    UNION ALL
    SELECT (SELECT min(s.metadata) FROM segments s WHERE s.owner = ? AND s.metadata > k.metadata)
    FROM known k WHERE k.metadata IS NOT NULL
    LIMIT {DISTINCT_METADATA + 2}
)
SELECT metadata FROM known WHERE metadata IS NOT NULL
"""


def conditions(owner: str, filters: SearchFilters) -> tuple[str, list[SqlValue]]:
    """The conditions on a row ``s`` of ``segments``, and the values of their question marks.

    Raises:
        InvalidInputError: an id or the metadata hold half of a character, or are no JSON.
    """
    _check([filters.run_loop_id, filters.without_run_loop_id, dict(filters.metadata)])
    parts, values = ["s.owner = ?"], list[SqlValue]([owner])
    if filters.types is not None:
        parts.append(f"s.type IN ({', '.join('?' * len(filters.types))})")
        values += sorted(filters.types)
    if filters.since is not None:
        parts.append("s.at >= ?")
        values.append(epoch(filters.since))
    if filters.until is not None:
        parts.append("s.at < ?")
        values.append(epoch(filters.until))
    if filters.run_loop_id is not None:
        parts.append("s.run_loop_id = ?")
        values.append(filters.run_loop_id)
    if filters.without_run_loop_id is not None:
        parts.append("s.run_loop_id <> ?")
        values.append(filters.without_run_loop_id)
    for name, value in filters.metadata.items():
        condition, of_condition = _has("s.metadata", name, value)
        parts.append(condition)
        values += of_condition
    return " AND ".join(parts), values


class PassingRows:
    """A `PassingRows` over the rows of segments."""

    def __init__(self, file: SqliteFile, owner: str, filters: SearchFilters) -> None:
        self._file = file
        self._owner = owner
        self._filters = filters
        self._conditions, self._values = conditions(owner, filters)

    def first(self, limit: int) -> list[int]:
        """Numbers of segments that pass, at most so many, in no order.

        Raises:
            StorageError: the ledger cannot be read.
        """
        return self._select("", limit)

    def by_time(self, limit: int, *, newest: bool) -> list[int]:
        """Numbers of the oldest segments that pass, or of the newest, at most so many.

        Raises:
            StorageError: the ledger cannot be read.
        """
        direction = "DESC" if newest else "ASC"
        return self._select(f" ORDER BY s.at {direction}, s.id {direction}", limit)

    def among(self, numbers: Iterable[int]) -> frozenset[int]:
        """Which of these pass.

        Raises:
            StorageError: the ledger cannot be read.
        """
        rows = self._file.select(
            "SELECT s.id FROM json_each(?) AS asked CROSS JOIN segments s ON s.id = asked.value"
            f" WHERE {self._conditions}",
            (json.dumps([*numbers]), *self._values),
        )
        return frozenset(row[0] for row in rows)

    def _select(self, order: str, limit: int) -> list[int]:
        condition, values = self._by_known_metadata() or (self._conditions, self._values)
        rows = self._file.select(
            f"SELECT s.id FROM segments s WHERE {condition}{order} LIMIT ?", (*values, limit)
        )
        return [row[0] for row in rows]

    def _by_known_metadata(self) -> tuple[str, list[SqlValue]] | None:
        """The same conditions, with the metadata that pass named one by one.

        Many segments share the same few metadata: these few are read as JSON, not every segment's.
        None when nothing is asked of metadata, or when there are too many that differ.
        """
        if not self._filters.metadata:
            return None
        distinct = [row[0] for row in self._file.select(_DISTINCT_METADATA, (self._owner,) * 2)]
        if len(distinct) > DISTINCT_METADATA:
            return None
        clauses = [_has("m.value", *each) for each in self._filters.metadata.items()]
        passing = self._file.select(
            "SELECT m.value FROM json_each(?) m"
            f" WHERE {' AND '.join(condition for condition, _ in clauses)}",
            (json.dumps(distinct), *(value for _, values in clauses for value in values)),
        )
        others, values = conditions(self._owner, replace(self._filters, metadata={}))
        return (
            f"{others} AND s.metadata IN (SELECT value FROM json_each(?))",
            [*values, json.dumps([row[0] for row in passing])],
        )


def _has(metadata: str, name: str, value: Any) -> tuple[str, list[SqlValue]]:
    """That the metadata have a value of this name. 1 and 1.0 are the same number; true is not 1.

    Args:
        metadata: the column, or an expression that gives JSON or NULL.
        name: of the value.
        value: as JSON gives it.
    """
    values: list[SqlValue] = [_written(name, value), name]
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        value = _as_float(value)
    match value:
        case None:
            equal = "each.type = 'null'"
        case bool():
            equal = f"each.type = '{str(value).lower()}'"
        case int() | float():
            equal = "each.type IN ('integer', 'real') AND each.value = ?"
            values.append(value)
        case str():
            equal = "each.type = 'text' AND each.value = ?"
            values.append(value)
        case _:
            # The ledger writes names in order, so that equal objects are equal texts.
            equal = "each.type IN ('array', 'object') AND each.value = ?"
            values.append(
                json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            )
    # Whether the text holds it is asked first: that costs a tenth of reading it as JSON. A ledger
    # of an earlier version may hold `Infinity`, which SQLite does not read: its name is read.
    readable = (
        f"CASE WHEN json_valid({metadata}) THEN {metadata} ELSE writable_json({metadata}) END"
    )
    return (
        f"{metadata} IS NOT NULL AND instr({metadata}, ?) > 0"
        f" AND EXISTS (SELECT 1 FROM json_each({readable}) each WHERE each.key = ? AND {equal})"
    ), values


def _as_float(value: int) -> float:
    """As SQLite reads an integer in JSON that its own are too small for."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the filters hold what no memory can hold: {error}",
            advice="Give ids, names and values as they could be sent with a message: valid JSON.",
        ) from error


def _written(name: str, value: Any) -> str:
    """How a name and its value, or the beginning of it, stand in the ledger's JSON."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGERS:
        value = int(value)  # 1 is the beginning of 1.0 as well
    elif isinstance(value, float) or (isinstance(value, int) and abs(value) >= _EXACT_INTEGERS):
        return json.dumps(name, ensure_ascii=False)  # 1e16 can be written in several ways
    return json.dumps({name: value}, ensure_ascii=False, sort_keys=True)[1:-1]
