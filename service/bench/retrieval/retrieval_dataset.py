"""A set of evaluation data: run loops, and queries with the evidence that answers them.

``run_loops.jsonl`` is in the exchange format. ``queries.jsonl`` has one query a line:
``{"id", "query", "evidence": [{"run_loop_id", "iteration_index", "segment_type"}], "category"}``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from service.bench import parameters
from service.bench.parameters import BenchmarkError
from service.bench.retrieval.retrieval_metrics import Place
from service.domain.anchors import SegmentType
from service.domain.run_loops import RunLoop
from service.memory.run_loop_lines import BadLineError, Line, parse

RUN_LOOPS = "run_loops.jsonl"
QUERIES = "queries.jsonl"
SETS = "retrieval"
"""The folder of sets, inside of a folder of several kinds of data."""
_SHOWN = 3

_Row = TypeVar("_Row", bound=BaseModel)


class Evidence(BaseModel):
    """One place that answers a query."""

    run_loop_id: str
    iteration_index: int = Field(ge=0)
    segment_type: SegmentType


class Query(BaseModel):
    """A question, and where its answer stands."""

    id: str
    query: str = Field(min_length=1)
    evidence: tuple[Evidence, ...]
    category: str = ""

    @property
    def places(self) -> frozenset[Place]:
        """Its evidence, as hits are compared with."""
        return frozenset(
            Place(each.run_loop_id, each.iteration_index, each.segment_type)
            for each in self.evidence
        )


@dataclass(frozen=True, slots=True)
class DataSet:
    """One set, read and checked."""

    name: str
    run_loops_file: Path
    run_loops: Sequence[RunLoop]
    queries: Sequence[Query]
    """Those with evidence."""
    unanswered: Sequence[Query]
    """Those without: nothing in the set answers them."""
    sha256: dict[str, str]
    """Of each of its two files, by name."""
    notices: Sequence[str]
    """What a person should know of it, in words."""

    @property
    def latest(self) -> datetime:
        """The latest moment in it."""
        moments = [each.timestamp for loop in self.run_loops for each in loop.iterations]
        moments += [loop.completed_at or loop.created_at for loop in self.run_loops]
        return max(moments)


def find_sets(folder: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """The folders of sets.

    Args:
        folder: of one set, of folders of sets, or of a folder ``retrieval`` of such.
        patterns: only the sets of these names; patterns such as ``locomo-*`` do.

    Raises:
        BenchmarkError: there are none, or none of a wanted name.
    """
    shape = f"A set is a folder with the files {RUN_LOOPS} and {QUERIES}."
    return parameters.find_sets(folder, patterns, kind=SETS, is_set=is_set, shape=shape)


def is_set(folder: Path) -> bool:
    """Whether a folder holds a set, or a part of one."""
    return (folder / RUN_LOOPS).exists() or (folder / QUERIES).exists()


def read_set(folder: Path, *, evidence: bool = True) -> DataSet:
    """Read a set and check that it can be judged.

    Args:
        folder: of the set.
        evidence: whether a set is of use only if some query has evidence.

    Raises:
        BenchmarkError: a file is missing or unreadable, a line is not of its format, or no query
            has evidence.
    """
    run_loops = list(_run_loops(folder / RUN_LOOPS))
    iterations = {loop.id: len(loop.iterations) for loop in run_loops}
    queries: list[Query] = []
    unanswered: list[Query] = []
    without: list[str] = []
    nowhere: list[str] = []
    for number, query in _rows(folder / QUERIES, Query):
        where = f"line {number} (query {query.id})"
        if not query.query.strip():
            raise BenchmarkError(
                f"{folder / QUERIES}, {where} is blank",
                advice="Write the question, or take it out.",
            )
        if not query.evidence:
            without.append(where)
            unanswered.append(query)
            continue
        nowhere += [
            where
            for each in query.evidence
            if each.iteration_index >= iterations.get(each.run_loop_id, 0)
        ]
        queries.append(query)
    if evidence and not queries:
        raise BenchmarkError(
            f"{folder / QUERIES} has no query with evidence",
            advice="What is found can only be judged against evidence: name where the answers"
            " stand.",
        )
    notices = []
    if without:
        notices.append(
            f"{len(without)} queries without evidence count for `auroc` alone: {_some(without)}"
        )
    if nowhere:
        notices.append(
            f"{len(nowhere)} places of evidence are in no run loop, and count as not found:"
            f" {_some(nowhere)}"
        )
    return DataSet(
        name=folder.resolve().name,
        run_loops_file=folder / RUN_LOOPS,
        run_loops=run_loops,
        queries=queries,
        unanswered=unanswered,
        sha256={name: _sha256(folder / name) for name in (RUN_LOOPS, QUERIES)},
        notices=tuple(notices),
    )


def asked_in_words_of(data: DataSet, other: DataSet) -> DataSet:
    """A set whose queries are put as another set puts them, in another language for instance.

    Two queries are the same when their ids are, but for the name of the set at their start. The
    evidence stays that of the set; its queries that the other set does not have are left out.

    Raises:
        BenchmarkError: none of its queries with evidence is in the other set.
    """
    words = {
        query.id.removeprefix(other.name): query.query
        for query in (*other.queries, *other.unanswered)
    }

    def put(queries: Sequence[Query]) -> list[Query]:
        named = [(query.id.removeprefix(data.name), query) for query in queries]
        return [
            query.model_copy(update={"query": words[name]})
            for name, query in named
            if name in words
        ]

    queries, unanswered = put(data.queries), put(data.unanswered)
    if not queries:
        raise BenchmarkError(
            f"{other.name} has none of the queries of {data.name}",
            advice="The same query has the same id in both, but for the set's name at its start.",
        )
    missing = len(data.queries) + len(data.unanswered) - len(queries) - len(unanswered)
    left_out = f"{missing} queries are not in {other.name}, and were not asked"
    return replace(
        data,
        queries=queries,
        unanswered=unanswered,
        sha256={**data.sha256, f"{other.name}/{QUERIES}": other.sha256[QUERIES]},
        notices=(*data.notices, left_out) if missing else data.notices,
    )


def _some(places: Sequence[str]) -> str:
    more = len(places) - _SHOWN
    return ", ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _run_loops(path: Path) -> Iterator[RunLoop]:
    for number, text in _lines(path):
        try:
            yield parse(Line(number, text.encode()), owner="")
        except BadLineError as error:
            raise BenchmarkError(
                f"{path}, line {number}: {error}",
                advice="It must be in the format that `rondo memory import` takes.",
            ) from error


def _rows(path: Path, model: type[_Row]) -> Iterator[tuple[int, _Row]]:
    for number, text in _lines(path):
        try:
            yield number, model.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BenchmarkError(
                f"{path}, line {number}: {where + ': ' if where else ''}{first['msg']}",
                advice="Correct the line; docs/benchmarks.md says what it must hold.",
            ) from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BenchmarkError(
            f"there is no file {path}", advice=f"A set has {RUN_LOOPS} and {QUERIES}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(
            f"{path} cannot be read: {error}", advice="It must be a text file in UTF-8."
        ) from error
    # Not `splitlines`, which also cuts at marks that JSON allows inside of strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
