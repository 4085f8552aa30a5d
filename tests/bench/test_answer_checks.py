"""How `rondo bench answers` tells a right answer from a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from service.bench.answers.answer_checks import faults, is_echo, is_in, is_refusal
from service.bench.answers.answer_dataset import Check

SUNDAY = date(2026, 3, 1)


def wrong(
    answer: str,
    said: str = "Tell me something.",
    *,
    language: Any = "en",
    tools: Sequence[str] | None = (),
    **check: Any,
) -> list[str]:
    return faults(answer, Check(**check), said=said, language=language, tools=tools, today=SUNDAY)


def test_a_right_answer_passes_whatever_its_style() -> None:
    for answer in (
        "Basel.",
        "You live in **Basel**!",
        "As you said, it's Basel \N{SLIGHTLY SMILING FACE}",
    ):
        assert wrong(answer, "Where do I live?", any=["basel"]) == []


def test_a_wrong_answer_is_told_with_what_was_missing_and_what_was_in_it() -> None:
    assert wrong("You can eat it.", any=["can't", "cannot"], none=["can eat"]) == [
        "none of can't , cannot is in it",
        "'can eat' is in it",
    ]
    assert wrong("One and two.", all=["one", "three"]) == ["three is not in it"]


def test_an_answer_without_words_fails_even_an_empty_check() -> None:
    assert wrong(" \n") == ["nothing was said"]


def test_curly_apostrophes_are_read_as_straight_ones() -> None:
    assert wrong("You can\N{RIGHT SINGLE QUOTATION MARK}t.", any=["can't"]) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Hello, my name is Mira and I live in Basel.",) * 2,
        ("my name is Mira and I live in Basel", "Hello, my name is Mira and I live in Basel."),
        ("我可以吃虾。", "我可以吃虾吗？"),
        ("我对海鲜过敏。", "我对海鲜过敏。"),
        (
            "You said: I am allergic to nuts, please remember.",
            "I am allergic to nuts, please remember.",
        ),
        (
            "You want me to name an animal that lives in the sea.",
            "Name an animal that lives in the sea.",
        ),
    ],
)
def test_the_message_again_is_an_echo(answer: str, said: str) -> None:
    assert is_echo(answer, said)
    assert "it is the message again" in wrong(answer, said, language="any")
    assert wrong(answer, said, echo=True, language="any") == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Hello, Mira! Nice to meet you.", "Hello, my name is Mira and I live in Basel."),
        ("You are not allergic to nuts any more; good to know.", "I am allergic to nuts."),
        ("Porto.", "Which is smaller, Lisbon or Porto?"),
        ("Noted: the code of your lock is 4817.", "Please remember: the code of my lock is 4817."),
        ("你住在昆明。", "我住在哪里？"),
        ("不可以吃虾。", "我可以吃虾吗？"),
        ("你不可以吃虾，因为你对海鲜过敏。", "我可以吃虾吗？"),
    ],
)
def test_an_answer_that_takes_up_words_of_the_message_is_no_echo(answer: str, said: str) -> None:
    assert not is_echo(answer, said)


def test_an_answer_in_a_whole_sentence_is_no_echo() -> None:
    asked, answer = "What is the code of my bike lock?", "The code of my bike lock is 4817."
    assert is_echo(answer, asked)
    assert wrong(answer, asked, any=["4817"]) == []
    assert wrong(answer, asked, any=["lock"]) == ["it is the message again"]
    assert wrong("25 乘以 8 等于 200。", "25 乘以 8 等于多少？", language="zh", any=["200"]) == []


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't assist with that.",
        "Sorry, I am unable to write stories.",
        "As an AI language model, I don't have feelings.",
        "抱歉，我无法回答这个问题。",
        "作为一个人工智能助手，我不能写诗。",
    ],
)
def test_a_refusal_fails_unless_it_may_be_one(answer: str) -> None:
    assert is_refusal(answer)
    language = "zh" if answer[0] > "z" else "en"
    assert wrong(answer, language=language) == ["it is a refusal"]
    assert wrong(answer, language=language, refusal=True) == []


@pytest.mark.parametrize(
    "answer",
    [
        "Sorry, I don't know when your sister was born.",
        "I'm sorry to hear that. You can't eat shrimp.",
        "对不起，我不知道。",
        "很抱歉听到这个消息，你不能吃虾。",
    ],
)
def test_regret_and_not_knowing_are_no_refusal(answer: str) -> None:
    assert not is_refusal(answer)


def test_an_answer_in_another_language_fails_unless_it_is_wanted() -> None:
    assert wrong("你好", language="en") == ["it is not in the language en"]
    assert wrong("Nice to meet you.", language="zh") == ["it is not in the language zh"]
    assert (
        faults(
            "早上好", Check(language="zh"), said="Translate", language="en", tools=(), today=SUNDAY
        )
        == []
    )
    assert is_in("en", "The word 你好 means hello in Chinese, and is said to a friend.")
    assert is_in("zh", "你的邮箱是 mira@example.org")
    assert is_in("zh", "42")


def test_going_round_in_one_phrase_fails_and_laughing_or_dots_do_not() -> None:
    assert wrong("推荐豆腐豆腐豆腐豆腐豆腐豆腐", language="zh") == ["it goes round in '豆腐'"]
    assert wrong("So, so on, so on, so on, so on, so on, so on.") == ["it goes round in 'so on, '"]
    assert wrong("- 1 onion\n" * 6) != []
    assert wrong("哈哈哈！……………………", language="zh") == []
    assert wrong("Very, very, very good: 1000000000000000 ---------------") == []


def test_lengths_are_counted_in_words_and_in_chinese_characters() -> None:
    assert wrong("One two three", min_words=4) == ["it has 3 words, fewer than 4"]
    assert wrong("一二三四", language="zh", max_words=3) == ["it has 4 words, more than 3"]


def test_tools_are_checked_where_the_check_speaks_of_them_and_there_were_any() -> None:
    assert wrong("Six.", tools=["calculator"]) == []
    assert wrong("Six.", tools=["calculator"], tool="calculator") == []
    assert wrong("Six.", tools=["web_search"], tool="calculator") == [
        "calculator was not called, but web_search"
    ]
    assert wrong("Hello!", tools=["calculator"], tool=None) == ["calculator was called"]
    assert wrong("Hello!", tools=None, tool="calculator") == []


def test_patterns_can_speak_of_today() -> None:
    assert wrong("Tomorrow is Monday.", any=["<today+1:%A>"]) == []
    assert wrong("It is 28 February 2026.", all=["<today-1:%-d>", "<today-1:%B>"]) == []
    assert wrong("明天是星期一。", language="zh", any=["[期周]<today+1:weekday>"]) == []
    assert wrong("现在是三月。", language="zh", any=["(?<!十)<today:month>月"]) == []
    assert wrong("Tomorrow is Sunday.", any=["<today+1:%A>"]) != []
