"""What counts as a word."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.memory.ledger.sqlite.full_text import FULL_TEXT_SCHEMA, index_words
from service.memory.ledger.terms import match_expression, query_terms, terms


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(FULL_TEXT_SCHEMA)
    return connection


def is_matched(database: sqlite3.Connection, text: str, query: str) -> bool:
    database.execute("DELETE FROM words")
    index_words(database, 1, text)
    expression = match_expression(query_terms(query))
    if expression is None:
        return False
    rows = database.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,))
    return rows.fetchone() is not None


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们昨天去了北京的故宫", "北京"),
        ("我们昨天去了北京的故宫", "宫"),
        ("我们昨天去了北京的故宫", "我"),
        ("我们昨天去了北京的故宫", "去北京"),
        ("只有一只猫A", "猫"),
        ("東京タワーに行きました", "タワー"),
        ("한국어를 배우고 있어요", "한국"),
        ("ฉันรักแมว", "แมว"),
        ("She was running late", "run"),
        ("Caroline’s café", "CAROLINE cafe"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "full"),
        ("snake_case_name", "case"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("Я люблю Москву", "москву"),
        ("iPhone手机", "手机"),
        ("3月14日", "14"),
        ("3月14日", "3月"),
        ("５月７日", "5月7日"),
        ("新买的iPhone15手机", "iphone15"),
        ("Call +49 (171) 555-0123", "0049 49171 5550123 5550123"),
        ("a.lee@example.com", "A.Lee@Example.COM"),
        ("report_v2.final.pdf", "v2.final"),
    ],
)
def test_a_word_is_found_inside_a_text(database: sqlite3.Connection, text: str, query: str) -> None:
    assert is_matched(database, text, query)


@pytest.mark.parametrize(
    ("text", "query"), [("我们去北京", "南京"), ("running", "ran"), ("cat", "concatenate")]
)
def test_other_words_are_not_found(database: sqlite3.Connection, text: str, query: str) -> None:
    assert not is_matched(database, text, query)


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        "NEAR(a b)",
        "a AND",
        "NOT a",
        "terms:a",
        "a*",
        "-a",
        "^a",
        "(",
        "{a b} : c",
        "a'b",
    ],
)
def test_nothing_in_a_query_is_syntax(database: sqlite3.Connection, query: str) -> None:
    is_matched(database, "a b c", query)
    assert is_matched(database, f"some {query} here", f"{query} here")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a" * 200_000, "a." * 100_000, "1-" * 100_000, "我a" * 100_000])
def test_a_very_long_text_is_indexed_in_time_for_its_length(text: str) -> None:
    assert list(terms(text))  # in the square of it, this would take hours
    assert query_terms(text)


@pytest.mark.parametrize("query", ["5月7日", "a.lee@example.com", "0171 5550123", "b_2.pdf"])
def test_what_is_looked_up_to_the_letter_is_a_term_of_its_own(query: str) -> None:
    parts = {"5", "7", "a", "lee", "example", "com", "0171", "5550123", "b", "2", "pdf"}
    assert {*query_terms(query)} - parts
    assert {*query_terms(query)} <= {*terms(query)}


@given(st.text(max_size=200))
def test_any_text_can_be_indexed_and_asked_for(text: str) -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(FULL_TEXT_SCHEMA)
        assert is_matched(connection, text, text) == bool(list(terms(text)))
