"""What passes the filters of a search, with few metadata that differ and with many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from service.domain.run_loops import Iteration
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.memory_tuning import DISTINCT_METADATA
from service.memory.protocol import SearchFilters
from service.storage.sqlite_file import Row, SqliteFile
from tests.support.memory.indexing import rows
from tests.support.memory.remembering import NOON, run_loop

SENT: Mapping[str, Mapping[str, Any]] = {
    "text": {"project": "lisbon"},
    "both": {"project": "lisbon", "day": 1},
    "one": {"day": 1.0},
    "half": {"day": 0.5},
    "huge": {"day": 10**30},
    "large": {"day": 10**16},
    "true": {"day": True},
    "false": {"day": False},
    "written": {"day": "1"},
    "none": {"day": None},
    "empty": {"day": ""},
    "list": {"day": [1, {"b": 2, "a": "x"}]},
    "nothing in it": {"day": []},
    "nested": {"day": {"day": 1}},
    "quoted": {'a "name"': "里斯本", "100%": False},
    "without": {},
}
ASKED: tuple[tuple[Mapping[str, Any], set[str]], ...] = (
    ({"project": "lisbon"}, {"text", "both"}),
    ({"project": "lisbon", "day": 1}, {"both"}),
    ({"day": 1}, {"both", "one"}),
    ({"day": 1.0}, {"both", "one"}),
    ({"day": 0.5}, {"half"}),
    ({"day": 10**30}, {"huge"}),
    ({"day": 1e30}, {"huge"}),
    ({"day": 1e16}, {"large"}),
    ({"day": True}, {"true"}),
    ({"day": False}, {"false"}),
    ({"day": "1"}, {"written"}),
    ({"day": None}, {"none"}),
    ({"day": ""}, {"empty"}),
    ({"day": [1, {"a": "x", "b": 2}]}, {"list"}),
    ({"day": []}, {"nothing in it"}),
    ({"day": [1]}, set()),
    ({"day": {"day": 1}}, {"nested"}),
    ({'a "name"': "里斯本"}, {"quoted"}),
    ({"100%": False}, {"quoted"}),
    ({"lisbon": "project"}, set()),
    ({"missing": None}, set()),
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    ledger.open()
    yield ledger
    ledger.close()


def sent_with(metadata: Mapping[str, Any]) -> Iteration:
    return Iteration(user_message="lamp", response="lit", timestamp=NOON, metadata=dict(metadata))


def remember_others(ledger: SqliteLedger, count: int, *, owner: str) -> None:
    """A loop of so many turns whose metadata all differ."""
    turns = (sent_with({"other": number}) for number in range(count))
    ledger.archive(run_loop(f"of {owner}", *turns, owner=owner))


def passing(ledger: SqliteLedger, owner: str = "me", **filters: Any) -> set[str]:
    """The run loops with segments that pass, all of whose segments do."""
    selection = ledger.segments.passing(owner, SearchFilters(**filters))
    numbers = selection.first(10_000)
    assert len(set(numbers)) == len(numbers)
    assert selection.among(numbers) == set(numbers)
    assert len(selection.first(1)) == min(1, len(numbers))
    segments = ledger.segments.numbered(numbers, owner=owner)
    assert set(segments) == set(numbers), "another owner's segment passed"
    loop_of = {number: each.anchor.run_loop_id for number, each in segments.items()}
    if "types" not in filters:
        loops = list(loop_of.values())
        assert all(loops.count(loop) == 2 for loop in set(loops)), "question and answer"
    return set(loop_of.values())


def names_them_one_by_one(ledger: SqliteLedger, owner: str = "me") -> bool:
    asked: list[str] = []
    select = SqliteFile.select

    def noted(file: SqliteFile, query: str, values: Any = ()) -> list[Row]:
        asked.append(query)
        return select(file, query, values)

    with pytest.MonkeyPatch.context() as watched:
        watched.setattr(SqliteFile, "select", noted)
        ledger.segments.passing(owner, SearchFilters(metadata={"day": 1})).first(1)
    return "s.metadata IN" in asked[-1]


def test_few_metadata_and_many_give_the_same_answer_for_every_kind_of_value(
    ledger: SqliteLedger,
) -> None:
    ledger.archive(*(run_loop(name, sent_with(each)) for name, each in SENT.items()))
    assert names_them_one_by_one(ledger)
    few = [passing(ledger, metadata=metadata) for metadata, _ in ASKED]
    remember_others(ledger, DISTINCT_METADATA + 1, owner="me")
    assert not names_them_one_by_one(ledger)
    many = [passing(ledger, metadata=metadata) for metadata, _ in ASKED]
    expected = [names for _, names in ASKED]
    assert few == expected
    assert many == expected


def test_the_border_between_both_ways_is_where_it_is_said_to_be(ledger: SqliteLedger) -> None:
    remember_others(ledger, DISTINCT_METADATA - 1, owner="me")
    assert names_them_one_by_one(ledger)
    ledger.archive(run_loop("the last", sent_with({"day": 1})))
    assert names_them_one_by_one(ledger)
    assert passing(ledger, metadata={"day": 1}) == {"the last"}
    ledger.archive(run_loop("one more", sent_with({"day": 2})))
    assert not names_them_one_by_one(ledger)
    assert passing(ledger, metadata={"day": 1}) == {"the last"}
    assert passing(ledger, metadata={"day": 2}) == {"one more"}


@pytest.mark.parametrize("many", [False, True])
def test_owners_are_kept_apart_and_so_is_how_many_metadata_they_have(
    ledger: SqliteLedger, many: bool
) -> None:
    for owner in ("ann", "bob"):
        ledger.archive(run_loop("same", sent_with({"day": 1}), owner=owner))
        ledger.archive(run_loop(f"only {owner}", sent_with({"day": 1}), owner=owner))
    if many:
        remember_others(ledger, DISTINCT_METADATA + 1, owner="ann")
    assert names_them_one_by_one(ledger, "ann") is not many
    assert names_them_one_by_one(ledger, "bob")
    assert passing(ledger, "ann", metadata={"day": 1}) == {"same", "only ann"}
    assert passing(ledger, "bob", metadata={"day": 1}) == {"same", "only bob"}
    assert passing(ledger, "eve", metadata={"day": 1}) == set()


@pytest.mark.parametrize("many", [False, True])
def test_segments_without_metadata_never_pass_a_filter_on_them(
    ledger: SqliteLedger, tmp_path: Path, many: bool
) -> None:
    ledger.archive(run_loop("bare", ("lamp", "lit"), ("oil", "bought")))
    assert rows(tmp_path, "SELECT DISTINCT metadata FROM segments") == [(None,)]
    if many:
        remember_others(ledger, DISTINCT_METADATA + 1, owner="me")
    nothing: tuple[Any, ...] = (None, "", 0, False, [], {})
    for value in nothing:
        assert passing(ledger, metadata={"day": value}) == set()
    ledger.archive(run_loop("told", sent_with({"day": None})))
    assert passing(ledger, metadata={"day": None}) == {"told"}


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True])
def test_all_other_filters_hold_beside_metadata(ledger: SqliteLedger, many: bool) -> None:
    ledger.archive(*(run_loop(name, sent_with({"day": 1})) for name in ("a", "b")))
    if many:
        remember_others(ledger, DISTINCT_METADATA + 1, owner="me")
    day = {"day": 1}
    assert passing(ledger, metadata=day, run_loop_id="a") == {"a"}
    assert passing(ledger, metadata=day, without_run_loop_id="a") == {"b"}
    assert passing(ledger, metadata=day, until=NOON) == set()
    assert passing(ledger, metadata=day, since=NOON) == {"a", "b"}
    answers = SearchFilters(metadata=day, types=frozenset({"response"}))
    assert len(ledger.segments.passing("me", answers).first(100)) == 2
