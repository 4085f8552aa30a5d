"""The ledger: what archiving writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.errors import InvalidInputError, StorageError
from service.domain.run_loops import Iteration
from service.memory.ledger.sqlite import segment_reads
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.ledger.terms import query_terms
from service.memory.protocol import SearchFilters
from service.storage.sqlite_file import SqliteFile
from tests.support.memory.killed_archiving import check_words
from tests.support.memory.remembering import NOON, run_loop, tool_turn


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "memory.sqlite3")
    ledger.open()
    yield ledger
    ledger.close()


def words(ledger: SqliteLedger, query: str, owner: str = "me") -> list[str]:
    hits = ledger.words.search(
        list(query_terms(query)), owner=owner, filters=SearchFilters(), limit=10
    )
    rows = ledger.segments.rows([each.number for each in hits], owner=owner)
    return [str(rows[each.number].ref) for each in hits]


def test_archiving_twice_changes_nothing(ledger: SqliteLedger, tmp_path: Path) -> None:
    loop = run_loop("r", ("Where is Bern?", "In Switzerland."))
    assert ledger.archive(loop) == 2
    before = _contents(tmp_path / "memory.sqlite3")
    assert ledger.archive(loop) == 0
    assert _contents(tmp_path / "memory.sqlite3") == before


def test_a_loop_comes_back_equal(ledger: SqliteLedger) -> None:
    loop = run_loop("r", tool_turn("问？\0", "look", '{"a": "b"}', "result", "答。"))
    ledger.archive(loop)
    assert ledger.run_loop("r", owner="me") == loop
    piece = ledger.segments.at([AnchorRef("r", 0, 0)], owner="me")[AnchorRef("r", 0, 0)]
    assert piece.content == "问？\0"
    assert piece.anchor.timestamp == loop.iterations[0].timestamp


def test_a_loop_that_grew_brings_in_what_is_new(ledger: SqliteLedger) -> None:
    ledger.archive(run_loop("r", ("Where is Bern?", "In Switzerland."), status="idle"))
    grown = run_loop("r", ("Where is Bern?", "In Switzerland."), ("And Oslo?", "In Norway."))
    assert ledger.archive(grown) == 2
    assert words(ledger, "Bern") == ["r:0.0"]
    assert words(ledger, "Norway") == ["r:1.1"]


def test_changed_segments_are_replaced_and_vanished_ones_go(ledger: SqliteLedger) -> None:
    ledger.archive(run_loop("r", ("apples", "pears"), ("plums", "figs"), status="idle"))
    assert ledger.archive(run_loop("r", ("apples", "cherries"))) == 1
    assert words(ledger, "pears plums figs") == []
    assert sorted(words(ledger, "apples cherries")) == ["r:0.0", "r:0.1"]
    assert ledger.count() == (1, 2)


def test_only_what_differs_in_an_iteration_gets_a_new_number(ledger: SqliteLedger) -> None:
    ledger.archive(run_loop("r", ("apples", "pears"), ("plums", "figs"), status="idle"))
    before = numbers(ledger, "r:0.0", "r:0.1", "r:1.0", "r:1.1")
    ledger.archive(run_loop("r", ("apples", "cherries"), ("plums", "figs")))
    after = numbers(ledger, "r:0.0", "r:0.1", "r:1.0", "r:1.1")
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True, True]
    assert after[1] > max(before)


def test_what_was_sent_along_and_the_ids_of_calls_are_kept(
    ledger: SqliteLedger, tmp_path: Path
) -> None:
    turn = tool_turn("问", "look", "{}", "found", "done")
    loop = run_loop("r", turn.model_copy(update={"metadata": {"z": [1], "a": "苹果"}}))
    assert ledger.archive(loop) == 4
    assert ledger.run_loop("r", owner="me") == loop
    with sqlite3.connect(tmp_path / "memory.sqlite3") as db:
        rows = db.execute(
            "SELECT type, call_id, metadata FROM segments ORDER BY segment"
        ).fetchall()
    metadata = '{"a": "苹果", "z": [1]}'
    assert rows == [
        ("user_message", None, metadata),
        ("tool_call", "c1", metadata),
        ("tool_result", "c1", metadata),
        ("response", None, metadata),
    ]
    assert ledger.archive(run_loop("r", turn)) == 4, "other metadata is another segment"


def test_loops_that_are_archived_at_once_do_not_mix(ledger: SqliteLedger, tmp_path: Path) -> None:
    loops = [run_loop("r", *[(f"q{n}", f"a{n}")] * n, status="idle") for n in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ledger.archive, loops * 3))
    run_loop_read = ledger.run_loop("r", owner="me")
    assert run_loop_read in loops
    assert ledger.count()[1] == 2 * len(run_loop_read.iterations)
    assert ledger.archive(run_loop_read) == 0
    check_words(tmp_path / "memory.sqlite3")


def test_the_successors_of_a_loop_are_told_oldest_first(ledger: SqliteLedger) -> None:
    for name, hours in (("late", 2), ("early", 1)):
        loop = run_loop(name, ("again", "yes"), at=NOON + timedelta(hours=hours))
        ledger.archive(loop.model_copy(update={"predecessor_id": "r"}))
    ledger.archive(run_loop("other", ("x", "y")))
    assert [each.id for each in ledger.successors("r", owner="me")] == ["early", "late"]
    assert ledger.successors("r", owner="eve") == []


# --- what stands around segments


def test_the_neighbours_of_many_segments_come_at_once(ledger: SqliteLedger) -> None:
    ledger.archive(run_loop("r", ("q0", "a0"), ("", "a1"), ("q2", "a2")))
    ledger.archive(run_loop("s", ("q3", "a3"), owner="eve"))
    asked = numbers(ledger, "r:0.0", "r:1.0", "r:2.1")
    strange = ledger.segments.rows(range(100), owner="eve")
    neighbours = ledger.segments.neighbours([*asked, *strange, 999], owner="me", before=2, after=1)
    around = {
        str(each.segment.ref): ([row.text for row in each.before], [row.text for row in each.after])
        for each in neighbours.values()
    }
    assert around == {
        "r:0.0": ([], ["a0"]),
        "r:1.0": (["a0", "q0"], ["q2"]),
        "r:2.1": (["q2", "a1"], []),
    }
    assert neighbours[asked[1]].after[0] is neighbours[asked[2]].before[0], "read once"
    assert neighbours[asked[0]].segment.terms == "q0"
    bare = ledger.segments.neighbours(asked, owner="me", before=0, after=1, words=False)
    assert [row.text for row in bare[asked[0]].after] == [""]
    assert bare[asked[0]].before == []


def test_neighbours_are_read_through_the_index_alone(ledger: SqliteLedger, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "memory.sqlite3") as db:
        values = {"numbers": "[1]", "owner": "me", "before": 3, "after": 3}
        plan = db.execute(f"EXPLAIN QUERY PLAN {segment_reads.NEIGHBOURS}", values).fetchall()
    steps = [step for *_, step in plan if step.startswith(("SEARCH n", "SCAN n"))]
    assert len(steps) == 2
    assert all("USING COVERING INDEX" in step for step in steps)


def test_a_call_and_its_result_find_each_other(ledger: SqliteLedger) -> None:
    long = "A long result. " * 200
    ledger.archive(
        run_loop(
            "r",
            Iteration(
                tool_calls=tuple(
                    ToolCall(id=each, name="look", arguments="{}") for each in ("a", "b", "a", "c")
                ),
                tool_results=(
                    ToolResult(id="b", content="of b"),
                    ToolResult(id="a", content=long),
                    ToolResult(id="a", content="of the second a"),
                    ToolResult(id="stray", content="of no call"),
                ),
                timestamp=NOON,
            ),
        )
    )
    rows = ledger.segments.rows(range(1, 100), owner="me").values()
    by_ref = {row.ref: row for row in rows}
    partners = ledger.segments.partners(by_ref, owner="me")
    pairs = {
        (by_ref[ref].text[:15], by_ref[partner.ref].text[:15])
        for ref, (partner,) in partners.items()
    }
    assert pairs == {
        ("look {}", long[:15]),
        (long[:15], "look {}"),
        ("look {}", "of b"),
        ("of b", "look {}"),
        ("look {}", "of the second a"),
        ("of the second a", "look {}"),
    }
    pieces = [ref for ref, row in by_ref.items() if row.text.startswith("A long result")]
    assert len(pieces) > 1
    assert {partners[ref][0].ref for ref in pieces} == {AnchorRef("r", 0, 0)}
    assert partners[AnchorRef("r", 0, 0)][0].ref == pieces[0], "the first piece of it"
    assert ledger.segments.partners(by_ref, owner="eve") == {}


# --- files


def test_a_file_of_the_first_schema_is_emptied_to_be_brought_in_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    with sqlite3.connect(path) as db:
        db.executescript(
            "CREATE TABLE run_loops (owner, id, status, digest, summary, whole);"
            "CREATE TABLE segments (id INTEGER PRIMARY KEY AUTOINCREMENT, owner, text);"
            "CREATE VIRTUAL TABLE words USING fts5(terms, tokenize = 'ascii');"
            "CREATE TABLE embedded (segment, embedder);"
            "INSERT INTO run_loops VALUES ('me', 'r', 'completed', 'd', '{}', '{}');"
            "INSERT INTO segments VALUES (1, 'me', 'old');"
            "INSERT INTO words(rowid, terms) VALUES (1, 'old');"
            "PRAGMA user_version = 1;"
        )
    ledger = SqliteLedger(path)
    ledger.open()
    assert ledger.finished(["r"]) == frozenset()
    assert ledger.count() == (0, 0)
    ledger.archive(run_loop("r", ("apples", "pears")))
    assert words(ledger, "apples old") == ["r:0.0"]
    ledger.close()
    ledger.open()
    assert ledger.count() == (1, 2), "and only once"
    ledger.close()


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file.sqlite3"
    with sqlite3.connect(path) as db:
        db.executescript("CREATE TABLE old (x); PRAGMA user_version = 1;")
    upgrades = {1: "DROP TABLE old;", 2: "this is no SQL;"}
    with pytest.raises(StorageError):
        SqliteFile(path, "", when_damaged="", version=3, upgrades=upgrades).open()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("old",)]
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    upgrades[2] = "CREATE TABLE new (y);"
    file = SqliteFile(path, "", when_damaged="", version=3, upgrades=upgrades)
    file.open()
    assert file.select("SELECT name FROM sqlite_master") == [("new",)]
    file.close()


def test_two_owners_may_use_the_same_id(ledger: SqliteLedger) -> None:
    ledger.archive(run_loop("r", ("apples", "pears"), owner="ann"))
    ledger.archive(run_loop("r", ("plums", "figs"), owner="bob"))
    assert words(ledger, "apples plums", owner="ann") == ["r:0.0"]
    assert ledger.run_loop("r", owner="eve") is None
    bobs = ledger.run_loop("r", owner="bob")
    assert bobs is not None
    assert bobs.goal == "plums"


def test_only_loops_that_have_ended_count_as_finished(ledger: SqliteLedger) -> None:
    ledger.archive(run_loop("done", ("a", "b")))
    ledger.archive(run_loop("resting", ("a", "b"), status="idle"))
    assert ledger.finished(["done", "resting", "nowhere"]) == {"done"}


def test_half_a_character_is_refused_in_words(ledger: SqliteLedger) -> None:
    with pytest.raises(InvalidInputError, match="half of a character"):
        ledger.archive(run_loop("r", ("\ud83d", "b")))


def test_a_file_that_is_no_database_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_text("not a database at all, " * 100)
    with pytest.raises(StorageError, match=r"memory\.sqlite3") as caught:
        SqliteLedger(path).open()
    assert "brought in anew from the journal" in caught.value.problem().in_words()


def test_words_that_are_damaged_are_told_with_what_to_do(
    ledger: SqliteLedger, tmp_path: Path
) -> None:
    ledger.archive(run_loop("r", ("Where is Bern?", "In Switzerland.")))
    ledger.close()
    with sqlite3.connect(tmp_path / "memory.sqlite3") as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'words_config'")
    ledger.open()
    with pytest.raises(StorageError, match="vtable constructor failed") as caught:
        words(ledger, "Bern")
    assert "brought in anew from the journal" in caught.value.advice


def test_a_folder_in_place_of_the_file_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.mkdir()
    with pytest.raises(StorageError, match="is a folder, not a database file"):
        SqliteLedger(path).open()


def test_the_file_and_its_log_are_for_this_user_only(ledger: SqliteLedger, tmp_path: Path) -> None:
    ledger.archive(run_loop("r", ("a", "b")))
    path = tmp_path / "memory.sqlite3"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.with_name("memory.sqlite3-wal").stat().st_mode & 0o777 == 0o600
    ledger.close()
    path.chmod(0o644)
    ledger.open()
    assert path.stat().st_mode & 0o777 == 0o600


def numbers(ledger: SqliteLedger, *texts: str) -> list[int]:
    rows = ledger.segments.rows(range(1, 1000), owner="me")
    by_ref = {str(row.ref): row.number for row in rows.values()}
    return [by_ref[text] for text in texts]


def _contents(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())


def test_many_loops_at_once_are_what_they_are_one_by_one(tmp_path: Path) -> None:
    loops = [run_loop(f"r{n}", (f"question {n}", f"answer {n}")) for n in range(20)]
    one, many = SqliteLedger(tmp_path / "one.sqlite3"), SqliteLedger(tmp_path / "many.sqlite3")
    one.open()
    many.open()
    assert sum(one.archive(loop) for loop in loops) == 40
    assert many.archive(loops[3]) == 2
    assert many.archive(*loops) == 38
    assert many.archive(*loops) == 0
    assert many.archive() == 0
    for each in loops:
        assert many.run_loop(each.id, owner="me") == one.run_loop(each.id, owner="me") == each
    assert many.count() == one.count() == (20, 40)
    broken = run_loop("broken", ("\ud83d", ""))
    with pytest.raises(InvalidInputError):
        many.archive(run_loop("new", ("a", "b")), broken)
    assert many.count() == (20, 40)
    one.close()
    many.close()
