"""Several requests in one message: told apart only where they are plainly listed, word for word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.routing.message_splitting import requests_of
from service.tuning import SPLIT_MOST_CHARACTERS, SPLIT_MOST_REQUESTS
from tests.support.agent.request_lists import ONE, SEVERAL


@pytest.mark.parametrize(("text", "keys"), SEVERAL)
def test_listed_requests_are_told_apart(text: str, keys: tuple[str, ...]) -> None:
    requests = requests_of(text)
    assert len(requests) == len(keys)
    for request, key in zip(requests, keys, strict=True):
        assert key in request
        assert [other for other in keys if other in request] == [key]


@pytest.mark.parametrize("text", ONE)
def test_a_list_of_something_else_is_one_request(text: str) -> None:
    assert requests_of(text) == (text,)


def test_words_of_another_language_keep_a_request_from_nothing() -> None:
    mixed = "1. Translate 谢谢 into French\n2. Book a table at 海底捞\n3. 帮我查一下 Porto 的天气"
    assert len(requests_of(mixed)) == 3
    names = "1. 海底捞 hot pot\n2. 饺子 with vinegar"
    assert requests_of(names) == (names,)


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def together(requests: tuple[str, ...]) -> set[str]:
    """What the parts hold together, for each beginning that all of them may share."""
    lines = [requests[0][: match.end()] for match in re.finditer("\n", requests[0])]
    heads = ["", *(line for line in lines if all(each.startswith(line) for each in requests))]
    return {
        squeezed(requests[0] + "".join(each[len(head) :] for each in requests[1:]))
        for head in heads
    }


@pytest.mark.parametrize("text", [text for text, _ in SEVERAL])
def test_parts_together_hold_every_character_but_white_space(text: str) -> None:
    assert squeezed(text) in together(requests_of(text))


def test_what_announces_the_list_is_said_in_each_part() -> None:
    text = "Two questions:\n1. What is a lemur?\n2. How do I bake bread?\n\nThanks!"
    assert requests_of(text) == (
        "Two questions:\n1. What is a lemur?",
        "Two questions:\n2. How do I bake bread?\n\nThanks!",
    )


def test_a_list_within_an_item_stays_with_it() -> None:
    text = "1. Plan a weekend in Porto:\n   - museums\n   - seafood\n2. Find me a plumber"
    assert requests_of(text)[0] == "1. Plan a weekend in Porto:\n   - museums\n   - seafood"


@pytest.mark.parametrize(
    "text",
    [
        "1. Find a flight to Rome\n2. Book it with my usual card",
        "1. Write a poem about rain\n2. Translate the result into French",
        "1. What is a lemur?\n2. How big is the same animal in Asia?",
        "1. 查一下周六去成都的机票\n2. 把它发给小李",
        "1. 写一首关于雨的诗\n2. 翻译上面的诗",
        "1. Find Anna's phone number\n2. Call her about Friday",
        "1. Who is the mayor of Leeds?\n2. Write to his office about the bins",
        "1. Find a hotel in Rome\n2. Tell me how much it costs",
        "1. Book a table at Nico's\n2. Invite Tom, too",
        "1. Write a poem about rain\n2. Make the poem rhyme in every line",
        "1. 给妈妈打电话\n2. 问问她想吃什么？",
        "1. 查一下周六去成都的机票\n2. 那要多少钱？",
        "1. 这家餐厅几点开门？\n2. 这家餐厅可以带狗吗？",
        "1. 帮我查一下明天的天气\n2. 也查一下后天的",
        "1. 写一首关于雨的诗\n2. 再翻译成英文",
    ],
)
def test_a_request_that_needs_another_one_is_not_told_apart(text: str) -> None:
    assert requests_of(text) == (text,)


def test_numbers_that_do_not_count_up_are_no_list() -> None:
    text = "1. Find me a plumber\n3. Write a letter to Anna"
    assert requests_of(text) == (text,)


def test_what_lists_very_much_stays_whole() -> None:
    lines = [f"{n}. Find me the plumber of street {n}" for n in range(1, SPLIT_MOST_REQUESTS + 2)]
    assert len(requests_of("\n".join(lines))) == 1
    assert len(requests_of("\n".join(lines[:-1]))) == SPLIT_MOST_REQUESTS


def test_a_long_text_stays_whole() -> None:
    text = "1. Find me a plumber\n2. Tell me about " + "x" * SPLIT_MOST_CHARACTERS
    assert requests_of(text) == (text,)


@given(
    st.lists(
        st.sampled_from(
            ["1. ", "2. ", "- ", "①", "②", "find me a plumber", "查一下天气", "\n", " ", "?", "。"]
        ),
        max_size=14,
    ).map("".join)
)
def test_nothing_of_any_text_is_lost(text: str) -> None:
    requests = requests_of(text)
    if len(requests) == 1:
        assert requests == (text,)
    else:
        assert squeezed(text) in together(requests)
