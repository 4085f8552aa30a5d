"""What a lexical index promises: `LexicalIndex`, whatever engine stands behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest

from service.domain.run_loops import Iteration, RunLoop
from service.memory.ledger.protocol import LexicalIndex
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.ledger.terms import query_terms
from service.memory.protocol import SearchFilters
from tests.support.memory.remembering import NOON, run_loop
from tests.support.memory.words_in_memory import WordsInMemory


class Engine(Protocol):
    """An index, and what brings words into it."""

    @property
    def words(self) -> LexicalIndex: ...

    def archive(self, *run_loops: RunLoop) -> None: ...

    def remove(self, owner: str, run_loop_id: str) -> None: ...

    def text(self, number: int, owner: str) -> str: ...

    def close(self) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.words = WordsInMemory()
        self.archive = self.words.archive
        self.remove = self.words.remove

    def text(self, number: int, owner: str) -> str:
        return self.words.text(number)

    def close(self) -> None:
        pass


class InSqlite:
    def __init__(self, path: Path) -> None:
        self.ledger = SqliteLedger(path)
        self.ledger.open()
        self.words = self.ledger.words
        self.close = self.ledger.close

    def archive(self, *run_loops: RunLoop) -> None:
        self.ledger.archive(*run_loops)

    def remove(self, owner: str, run_loop_id: str) -> None:
        self.ledger.forget(owner, [run_loop_id], [])

    def text(self, number: int, owner: str) -> str:
        return self.ledger.segments.numbered([number], owner=owner)[number].content


@pytest.fixture(params=["sqlite", "in memory"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine = InSqlite(tmp_path / "memory.sqlite3") if request.param == "sqlite" else InMemory()
    yield engine
    engine.close()


def matching_texts(
    engine: Engine, query: str, owner: str = "me", limit: int = 9, **filters: object
) -> list[str]:
    hits = engine.words.search(
        query_terms(query),
        owner=owner,
        filters=SearchFilters(**filters),  # type: ignore[arg-type]
        limit=limit,
    )
    scores = [each.score for each in hits]
    assert scores == sorted(scores, reverse=True)
    return [engine.text(each.number, owner) for each in hits]


def test_an_empty_index_finds_nothing(engine: Engine) -> None:
    assert matching_texts(engine, "anything") == []
    assert engine.words.count() == 0
    assert engine.words.frequencies(["anything"]) == {"anything": 0}
    assert engine.words.holding_all(["anything"], owner="me") == []


def test_no_terms_find_nothing(engine: Engine) -> None:
    engine.archive(run_loop("a", ("red apples", "green pears")))
    assert matching_texts(engine, "?!") == []
    assert engine.words.search([], owner="me", filters=SearchFilters(), limit=9) == []
    assert engine.words.holding_all([], owner="me") == []


def test_words_are_found_as_soon_as_they_are_archived(engine: Engine) -> None:
    engine.archive(run_loop("a", ("red apples", "green pears")))
    assert matching_texts(engine, "apple") == ["red apples"]
    engine.archive(run_loop("a", ("red apples", "green pears"), ("blue plums", "black grapes")))
    assert matching_texts(engine, "plums") == ["blue plums"]
    assert engine.words.count() == 4


def test_rare_words_count_for_more(engine: Engine) -> None:
    engine.archive(run_loop("a", ("apples and pears", "apples"), ("pears and quinces", "apples")))
    assert matching_texts(engine, "apples quinces")[0] == "pears and quinces"
    assert len(matching_texts(engine, "apples quinces", limit=2)) == 2


def test_chinese_is_found_by_any_part_of_it(engine: Engine) -> None:
    engine.archive(run_loop("a", ("明天去北京开会", "好的，我订了火车票")))
    assert matching_texts(engine, "北京") == ["明天去北京开会"]
    assert matching_texts(engine, "火车票") == ["好的，我订了火车票"]
    assert matching_texts(engine, "京") == ["明天去北京开会"]
    assert matching_texts(engine, "上海") == []


def test_owners_see_nothing_of_each_other(engine: Engine) -> None:
    engine.archive(run_loop("a", ("red apples", "green pears")))
    engine.archive(run_loop("a", ("red plums", "yours"), owner="她"))
    assert matching_texts(engine, "red") == ["red apples"]
    assert matching_texts(engine, "red", owner="她") == ["red plums"]
    assert matching_texts(engine, "red", owner="nobody") == []
    assert engine.words.holding_all(["red"], owner="nobody") == []
    assert engine.words.frequencies(["red"]) == {"red": 2}, "how rare a word is, all say together"


def test_filters_are_exact(engine: Engine) -> None:
    sent = Iteration(user_message="red wine", timestamp=NOON, metadata={"project": "里斯本"})
    engine.archive(run_loop("a", ("red apples", "a red answer")), run_loop("b", sent))
    later = NOON + timedelta(days=1)
    engine.archive(run_loop("c", ("red plums", "no"), at=later))
    assert matching_texts(engine, "red", types=frozenset({"response"})) == ["a red answer"]
    assert matching_texts(engine, "red", since=later) == ["red plums"]
    assert "red plums" not in matching_texts(engine, "red", until=later)
    assert matching_texts(engine, "red", run_loop_id="b") == ["red wine"]
    assert "red wine" not in matching_texts(engine, "red", without_run_loop_id="b")
    assert matching_texts(engine, "red", metadata={"project": "里斯本"}) == ["red wine"]
    assert matching_texts(engine, "red", metadata={"project": "lisbon"}) == []
    assert matching_texts(engine, "red", limit=1, run_loop_id="c") == ["red plums"]


def test_what_holds_all_of_some_terms_comes_newest_first(engine: Engine) -> None:
    engine.archive(run_loop("a", ("red green", "green"), ("green red blue", "red")))
    numbers = engine.words.holding_all(["red", "green"], owner="me")
    assert [engine.text(each, "me") for each in numbers] == ["green red blue", "red green"]
    assert engine.words.holding_all(["red", "green"], owner="me", limit=1) == numbers[:1]


def test_what_is_removed_is_found_no_more(engine: Engine) -> None:
    engine.archive(run_loop("a", ("red apples", "pears")), run_loop("b", ("red plums", "figs")))
    engine.remove("me", "a")
    engine.remove("me", "a")
    engine.words.clear()
    assert matching_texts(engine, "red apples") == ["red plums"]
    assert engine.words.count() == 2
    assert engine.words.frequencies(["appl", "red"]) == {"appl": 0, "red": 1}


def test_a_changed_text_is_found_by_its_new_words_alone(engine: Engine) -> None:
    engine.archive(run_loop("a", ("red apples", "pears"), status="idle"))
    engine.archive(run_loop("a", ("red plums", "pears"), status="idle"))
    assert matching_texts(engine, "apples") == []
    assert matching_texts(engine, "plums") == ["red plums"]


def test_huge_texts_and_strange_ones(engine: Engine) -> None:
    engine.archive(run_loop("a", ("needle " + "hay " * 200_000, 'NEAR("a" OR *) -b ^c')))
    assert any(each.startswith("needle") for each in matching_texts(engine, "needle"))
    assert matching_texts(engine, 'NEAR("') == ['NEAR("a" OR *) -b ^c']
    assert matching_texts(engine, "x" * 100_000) == []
