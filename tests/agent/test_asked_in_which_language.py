"""The question where a message belongs is put in the language of the message."""

from __future__ import annotations

import pytest

from service.domain.routes import Route, RouteCandidate
from service.routing.clarification import question

ROUTE = Route(
    decision="new",
    confidence=0.4,
    method="asked",
    reason="you are asked",
    candidates=(RouteCandidate(run_loop_id="trip", goal="去里斯本的旅行", probability=0.6),),
    new_probability=0.4,
)


@pytest.mark.parametrize(
    "words",
    [
        "And what does it cost?",
        "What is 饺子 in English, and how do I make it?",
        "これはどの旅行ですか",
        "12?",
        "",
    ],
)
def test_what_is_not_in_chinese_is_asked_about_in_english(words: str) -> None:
    asked = question(ROUTE, words)
    assert (asked.prompt, asked.options[-1]) == ("What is this about?", "something new")


@pytest.mark.parametrize("words", ["那要多少钱？", "帮我 book 一个酒店"])
def test_a_message_in_chinese_is_asked_about_in_chinese(words: str) -> None:
    asked = question(ROUTE, words)
    assert (asked.prompt, asked.options[-1]) == ("这说的是哪件事？", "一件新的事")
