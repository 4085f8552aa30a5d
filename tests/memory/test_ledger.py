"""The ledger: what archiving writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import InvalidInputError, StorageError
from service.memory.ledger import Ledger
from service.memory.protocol import SearchFilters
from tests.memory.remembering import run_loop, tool_turn


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "memory.sqlite3")
    ledger.open()
    yield ledger
    ledger.close()


def words(ledger: Ledger, query: str, owner: str = "me") -> list[str]:
    found = ledger.words.search(query, owner=owner, filters=SearchFilters(), limit=10)
    return [str(candidate.ref) for candidate in found]


def test_archiving_twice_changes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    loop = run_loop("r", ("Where is Bern?", "In Switzerland."))
    assert ledger.archive(loop) == 2
    before = _contents(tmp_path / "memory.sqlite3")
    assert ledger.archive(loop) == 0
    assert _contents(tmp_path / "memory.sqlite3") == before


def test_a_loop_comes_back_equal(ledger: Ledger) -> None:
    loop = run_loop("r", tool_turn("问？\0", "look", '{"a": "b"}', "result", "答。"))
    ledger.archive(loop)
    assert ledger.run_loop("r", owner="me") == loop
    piece = ledger.segments([AnchorRef("r", 0, 0)], owner="me")[AnchorRef("r", 0, 0)]
    assert piece.content == "问？\0"
    assert piece.anchor.timestamp == loop.iterations[0].timestamp


def test_a_loop_that_grew_brings_in_what_is_new(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("Where is Bern?", "In Switzerland."), status="idle"))
    grown = run_loop("r", ("Where is Bern?", "In Switzerland."), ("And Oslo?", "In Norway."))
    assert ledger.archive(grown) == 2
    assert words(ledger, "Bern") == ["r:0.0"]
    assert words(ledger, "Norway") == ["r:1.1"]


def test_changed_segments_are_replaced_and_vanished_ones_go(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("apples", "pears"), ("plums", "figs"), status="idle"))
    assert ledger.archive(run_loop("r", ("apples", "cherries"))) == 1
    assert words(ledger, "pears plums figs") == []
    assert words(ledger, "apples cherries") == ["r:0.0", "r:0.1"]
    assert ledger.count() == (1, 2)
    unneeded = {str(vector.ref) for vector in ledger.embedding.unneeded(limit=10)}
    assert unneeded == {"r:1.0", "r:1.1"}, "at r:0.1 a new vector replaces the old one"


def test_two_owners_may_use_the_same_id(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("apples", "pears"), owner="ann"))
    ledger.archive(run_loop("r", ("plums", "figs"), owner="bob"))
    assert words(ledger, "apples plums", owner="ann") == ["r:0.0"]
    assert ledger.run_loop("r", owner="eve") is None
    bobs = ledger.run_loop("r", owner="bob")
    assert bobs is not None
    assert bobs.goal == "plums"


def test_only_loops_that_have_ended_count_as_finished(ledger: Ledger) -> None:
    ledger.archive(run_loop("done", ("a", "b")))
    ledger.archive(run_loop("resting", ("a", "b"), status="idle"))
    assert ledger.finished() == {"done"}


def test_half_a_character_is_refused_in_words(ledger: Ledger) -> None:
    with pytest.raises(InvalidInputError, match="half of a character"):
        ledger.archive(run_loop("r", ("\ud83d", "b")))


def test_a_file_that_is_no_database_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_text("not a database at all, " * 100)
    with pytest.raises(StorageError, match=r"memory\.sqlite3") as caught:
        Ledger(path).open()
    assert "brought in anew from the journal" in caught.value.problem().in_words()


def test_words_that_are_damaged_are_told_with_what_to_do(ledger: Ledger, tmp_path: Path) -> None:
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
        Ledger(path).open()


def test_the_file_and_its_log_are_for_this_user_only(ledger: Ledger, tmp_path: Path) -> None:
    ledger.archive(run_loop("r", ("a", "b")))
    path = tmp_path / "memory.sqlite3"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.with_name("memory.sqlite3-wal").stat().st_mode & 0o777 == 0o600
    ledger.close()
    path.chmod(0o644)
    ledger.open()
    assert path.stat().st_mode & 0o777 == 0o600


def _contents(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())
