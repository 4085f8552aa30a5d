"""What says the same, and what only looks like it."""

from __future__ import annotations

import pytest

from service.domain.anchors import AnchorRef, SegmentType
from service.memory.ledger.protocol import SegmentRow
from service.memory.search.searching import fold

LONG = (
    "Well, Ann told Bob that the boat leaves the harbour of Lisbon at 9:30 on the 12th of May, with"
    " the two bicycles, the tent and 40 litres of water on board."
)


def rows(*texts: str, kinds: tuple[SegmentType, ...] = ()) -> list[SegmentRow]:
    return [
        SegmentRow(
            number, AnchorRef("r", number, 0), kinds[number] if kinds else "response", 0.0, text, ""
        )
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The key is under the mat.", "the key is under  the mat"),
        ("钥匙在门口的垫子下面。", "钥匙在门口的垫子下面"),
        ("Ｔｈｅ key is under the mat", "The key is under the mat!"),
        ("**The key** is under the `mat`.", "The key is under the mat."),
        ("ok", "ok"),
        (LONG, LONG.removeprefix("Well, ").replace("the harbour", "harbour")),
        (
            "我们昨天在北京的故宫旁边买了两张去上海的票",
            "我们昨天在北京故宫旁边买了两张去上海的票呢",
        ),
    ],
)
def test_the_same_words_are_one(one: str, other: str) -> None:
    (folded,) = fold(rows(one, other))
    assert folded.row.text == one
    assert [row.number for row in folded.duplicates] == [1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("flight on 12 May", "flight on 13 May"),
        ("The temperature was 3.5 degrees", "The temperature was 35 degrees"),
        ("It was -5 degrees outside then", "It was 5 degrees outside then"),
        ("I write all of it in C++ now", "I write all of it in C now"),
        ("You sold the old house.", "You sold the old house?"),
        ("ok", "OK."),
        ("Yes.", "Yes!"),
        ("好的。", "好的"),
        (LONG, LONG.replace("Ann", "Eve")),
        (LONG, LONG.replace("Ann told Bob", "Bob told Ann")),
        (LONG, LONG.replace("leaves", "never leaves")),
        (LONG, LONG.replace("40", "50")),
        (LONG, LONG.replace("12th", "13th")),
        (
            "我们昨天在北京的故宫旁边买了两张去上海的票",
            "我们昨天在北京的故宫旁边没买两张去上海的票",
        ),
    ],
)
def test_different_facts_stay_two(one: str, other: str) -> None:
    assert len(fold(rows(one, other))) == 2


def test_who_speaks_makes_a_difference() -> None:
    same = ("The key is under the mat.",) * 2
    assert len(fold(rows(*same, kinds=("user_message", "response")))) == 2


def test_the_first_of_many_is_shown_and_the_others_follow_in_order() -> None:
    folded = fold(rows(LONG, "The key is under the mat.", LONG.upper(), LONG.lower()))
    assert [(each.row.number, [row.number for row in each.duplicates]) for each in folded] == [
        (0, [2, 3]),
        (1, []),
    ]
