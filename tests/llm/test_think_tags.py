"""Inline reasoning, however it is cut. A unit test, as every cut of every answer is a case."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.conversation.stream_parts import TextDelta
from service.llm.openai.openai_chunks import ThinkTags


def parted(*pieces: str) -> list[tuple[str, str]]:
    """The answer as runs of ("think" or "text", words)."""
    tags = ThinkTags()
    parts = [part for piece in pieces for part in tags.feed(piece)]
    parts += tags.finish()
    runs: list[tuple[str, str]] = []
    for part in parts:
        kind, words = ("text", part.text) if isinstance(part, TextDelta) else ("think", part.think)
        assert words, "an empty piece"
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1] + words)
        else:
            runs.append((kind, words))
    return runs


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ("<think>2 + 2</think>\n\n4", [("think", "2 + 2"), ("text", "4")]),
        (" \n<think>\nhm\n</think>好 的", [("think", "\nhm\n"), ("text", "好 的")]),
        ("<think></think> 4 ", [("text", "4 ")]),
        ("<think>a</think> <think>b</think>4", [("think", "ab"), ("text", "4")]),
        ("<think>a </thin </ </think>4", [("think", "a </thin </ "), ("text", "4")]),
        ("Write <think>so</think>.", [("text", "Write <think>so</think>.")]),
        ("4 <think>", [("text", "4 <think>")]),
        ("so it is 4.</think>\n4", [("text", "so it is 4.</think>\n4")]),
        ("<thinking>no</thinking>", [("text", "<thinking>no</thinking>")]),
        ("\n\n1, 2", [("text", "\n\n1, 2")]),
        ("<thin", [("text", "<thin")]),
        (" \n", [("text", " \n")]),
        ("<think>never closed </th", [("think", "never closed </th")]),
        ("<think>closed</think>\n", [("think", "closed")]),
        ("", []),
        (" " * 65 + "<think>a</think>", [("text", " " * 65 + "<think>a</think>")]),
    ],
)
def test_leading_tags_are_reasoning_and_all_else_is_words(
    answer: str, runs: list[tuple[str, str]]
) -> None:
    assert parted(answer) == runs
    assert parted(*answer) == runs


answers = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<", "th", "ink>", "</", ">", " ", "\n", "a", "好", "😀"]
    ),
    max_size=12,
).map("".join)


@given(answers, st.lists(st.integers(0, 60), max_size=8))
def test_how_an_answer_is_cut_makes_no_difference(answer: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(answer)) for cut in cuts), len(answer)]
    pieces = [answer[a:b] for a, b in pairwise(places)]
    assert parted(*pieces) == parted(answer) == parted(*answer)


@given(answers)
def test_nothing_is_lost_but_leading_tags_and_the_white_space_around_them(answer: str) -> None:
    tagged = re.match(r"(\s*<think>(.*?)(?:</think>\s*|\Z))+", answer, re.DOTALL)
    words = "".join(words for _, words in parted(answer))
    led = tagged[0] if tagged else ""
    think = "".join(re.findall(r"<think>(.*?)(?:</think>|\Z)", led, re.DOTALL))
    assert words == think + answer[len(led) :]


@pytest.mark.slow
@given(answers)
def test_words_come_as_soon_as_they_cannot_be_a_tag(answer: str) -> None:
    tags = ThinkTags()
    fed = "".join(
        part.text if isinstance(part, TextDelta) else part.think for part in tags.feed(answer)
    )
    left = "".join(
        part.text if isinstance(part, TextDelta) else part.think for part in tags.finish()
    )
    assert len(left.strip()) < len("</think>")
    assert fed + left == "".join(words for _, words in parted(answer))
