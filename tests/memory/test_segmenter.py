"""What run loops are cut into."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.messages import ToolCall, ToolResult
from service.domain.run_loops import Iteration
from service.memory.segmenter import segment, split
from service.memory.tokens import estimate_tokens
from tests.memory.remembering import NOON, run_loop

_TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab .,!?\n\r\t。，！？；…”’\u0301\u200d\ufe0f👩👧🏽🇩🇪天气한\0"),
        st.characters(),
    ),
    max_size=400,
)


@given(_TEXTS, st.integers(min_value=1, max_value=40))
def test_the_pieces_of_a_text_are_the_text(text: str, max_tokens: int) -> None:
    pieces = split(text, max_tokens=max_tokens)
    assert "".join(pieces) == (text if text.strip() else "")
    assert all(piece.strip() for piece in pieces)


@given(_TEXTS, st.integers(min_value=8, max_value=40))
def test_pieces_are_small_but_for_the_blanks_around_them(text: str, max_tokens: int) -> None:
    for piece in split(text, max_tokens=max_tokens):
        assert estimate_tokens(piece.strip()) <= max_tokens


@given(
    st.lists(
        st.sampled_from(["e\u0301", "a", "👩\u200d👧", "👍🏽", "🇩🇪", "天", "\r\n"]), max_size=200
    )
)
def test_no_character_is_parted_from_its_marks(clusters: list[str]) -> None:
    text = "".join(clusters)
    borders, at = {0}, 0
    for cluster in clusters:
        at += len(cluster)
        borders.add(at)
    cuts, at = [], 0
    for piece in split(text, max_tokens=40):
        at += len(piece)
        cuts.append(at)
    # Two flags in a row are kept together as well: only cuts inside a cluster are wrong.
    assert set(cuts) <= borders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("First thought.\n\nSecond thought. And more", "First thought.\n\n"),
        ("A first sentence. Another sentence here", "A first sentence. "),
        ("今天天气很好。我们去公园散步", "今天天气很好。"),
        ("one two three four five six seven", "one two three four "),
        ("他说：“好！”然后我们回家了，一起吃饭", "他说：“好！”"),
    ],
)
def test_long_texts_are_cut_at_the_best_border(text: str, expected: str) -> None:
    assert split(text, max_tokens=7)[0] == expected


def test_every_type_is_cut_and_a_result_follows_its_call() -> None:
    iteration = Iteration(
        user_message="Is it raining?",
        reasoning="I should look.",
        tool_calls=(
            ToolCall(id="a", name="weather", arguments='{"city": "Bern"}'),
            ToolCall(id="b", name="clock", arguments="{}"),
        ),
        tool_results=(
            ToolResult(id="b", content="noon"),
            ToolResult(id="a", content="rain"),
            ToolResult(id="zzz", content="of no call"),
        ),
        response="Yes.",
        timestamp=NOON,
    )
    pieces = segment(run_loop("r", iteration))
    assert [(piece.anchor.segment_type, piece.content) for piece in pieces] == [
        ("user_message", "Is it raining?"),
        ("reasoning", "I should look."),
        ("tool_call", 'weather {"city": "Bern"}'),
        ("tool_result", "rain"),
        ("tool_call", "clock {}"),
        ("tool_result", "noon"),
        ("tool_result", "of no call"),
        ("response", "Yes."),
    ]
    assert [piece.anchor.segment_index for piece in pieces] == list(range(8))
    assert {piece.anchor.timestamp for piece in pieces} == {NOON}


def test_blank_texts_give_no_segment_and_each_iteration_counts_from_nothing() -> None:
    pieces = segment(run_loop("r", ("Hello", " \n"), ("", "Bye")))
    assert [piece.anchor.text for piece in pieces] == ["r:0.0", "r:1.0"]


def test_segmenting_is_the_same_each_time() -> None:
    loop = run_loop("r", ("Some words. " * 500, "一些话。" * 500))
    assert segment(loop) == segment(loop)


@pytest.mark.parametrize(
    "unit", ["a", " x", ".", "\"'", "天", "\n", "a\u0301\u0302", "🇩🇪", "A word. "]
)
def test_ten_megabytes_are_cut_in_time_for_lunch(unit: str) -> None:
    text = unit * (10_000_000 // len(unit.encode()))
    # Quadratic work would run into the tests' time-out of minutes; linear work takes a second.
    assert sum(map(len, split(text))) in (0, len(text))


def test_the_marks_alone_can_be_longer_than_a_piece() -> None:
    text = "a" + "\u0301" * 5000
    assert unicodedata.combining(text[1])
    assert "".join(split(text)) == text
