"""The order of what was found: meaning and words, in their context."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from service.domain.anchors import AnchorRef
from service.memory.ledger.terms import STOP_WORDS, terms
from service.memory.memory_tuning import POSTINGS
from service.memory.search.passages import Corpus, InContext, Passage
from service.memory.search.query_terms import query_vector, rare_terms, read_question
from service.memory.search.ranking import Ranked, rank


def passage(
    loop: str, place: int, text: str, cosine: float | None = 0.8, **other: float | bool
) -> Passage:
    time, eligible = float(other.get("time", 0.0)), bool(other.get("eligible", True))
    ref = AnchorRef(loop, place, 0)
    return Passage(ref, text, " ".join(terms(text)), cosine, time=time, eligible=eligible)


def in_context(passages: Sequence[Passage], place: int, around: int = 2) -> InContext:
    before = tuple(reversed(passages[max(0, place - around) : place]))
    return InContext(passages[place], before, tuple(passages[place + 1 : place + 1 + around]))


def search(query: str, *loops: Sequence[Passage]) -> list[Ranked]:
    question = read_question(query)
    every = [each for loop in loops for each in loop]
    frequency = {
        term: sum(
            any(word == term or word.startswith(term.rstrip("*") or "?") for word in words)
            if term.endswith("*")
            else term in words
            for words in (each.terms.split() for each in every)
        )
        for term in question.terms
    }
    candidates = [in_context(loop, place) for loop in loops for place in range(len(loop))]
    return rank(question, candidates, Corpus(len(every), frequency))


def places(ranked: Sequence[Ranked]) -> list[tuple[str, int]]:
    return [(entry.ref.run_loop_id, entry.ref.iteration_index) for entry in ranked]


FILLER = [passage(f"filler{i}", 0, f"Nothing of note {i}", 0.79 + i / 1000) for i in range(10)]
OTHERS = [[each] for each in FILLER]


def test_nothing_found_is_an_empty_order() -> None:
    assert rank(read_question("anything"), [], Corpus(0, {})) == []


def test_the_nearest_in_meaning_comes_first_when_no_word_is_shared() -> None:
    ranked = search("sailing", *OTHERS, [passage("a", 0, "We crossed the sea by boat", 0.9)])
    assert places(ranked)[0] == ("a", 0)


def test_a_rare_word_outweighs_a_common_one() -> None:
    whales = [[passage(f"w{i}", 0, "a whale was seen")] for i in range(8)]
    ranked = search("whale zeppelin", *whales, [passage("z", 0, "a zeppelin was seen")])
    assert places(ranked)[0] == ("z", 0)


def test_the_answer_stands_before_the_question_that_it_answers() -> None:
    loop = [
        passage("a", 0, "Where did you spend your holiday?", 0.84),
        passage("a", 1, "In Iceland, with my brother.", 0.83),
    ]
    ranked = search("Where was the holiday spent?", *OTHERS, loop)
    assert places(ranked)[:2] == [("a", 1), ("a", 0)]


def test_words_of_a_neighbour_count_less_than_ones_own() -> None:
    loop = [passage("a", 0, "The zeppelin landed."), passage("a", 1, "That was loud.")]
    ranked = search("zeppelin", *OTHERS, loop)
    assert places(ranked)[:2] == [("a", 0), ("a", 1)]
    assert ranked[1].scores["words"] < ranked[0].scores["words"]


def test_a_neighbour_is_found_although_no_index_offered_it() -> None:
    loop = [passage("a", 0, "Have you got a pet?", 0.85), passage("a", 1, "Yes, Rex.", 0.8)]
    ranked = rank(read_question("Which pet?"), [in_context(loop, 0)], Corpus(100, {"pet": 1}))
    assert {place for _, place in places(ranked)} == {0, 1}


def test_what_filters_exclude_is_context_and_never_found() -> None:
    loop = [
        passage("a", 0, "The zeppelin landed?", 0.9, eligible=False),
        passage("a", 1, "That was loud."),
    ]
    ranked = search("zeppelin", *OTHERS, loop)
    assert places(ranked)[0] == ("a", 1)
    assert ("a", 0) not in places(ranked)


def test_without_any_vector_words_decide() -> None:
    loops = [[passage(f"f{i}", 0, f"Nothing of note {i}", None)] for i in range(5)]
    ranked = search("the red zeppelin", *loops, [passage("z", 0, "A red zeppelin", None)])
    assert places(ranked)[0] == ("z", 0)
    assert ranked[0].relevance > ranked[1].relevance


def test_a_segment_that_waits_for_its_vector_is_not_buried() -> None:
    waiting = [passage("new", 0, "The zeppelin is red", None)]
    embedded = [passage("old", 0, "The weather is fine", 0.86)]
    ranked = search("red zeppelin", *OTHERS, embedded, waiting)
    assert places(ranked)[0] == ("new", 0)


def test_the_scale_and_the_zero_of_cosines_do_not_matter() -> None:
    draw = random.Random(5)
    cosines = [draw.gauss(0.8, 0.03) for _ in range(400)]
    orders = []
    for scale, shift in ((1.0, 0.0), (4.0, -2.8)):
        loops = [
            [passage(f"l{i:03}", 0, f"word{i % 7} red", scale * cosine + shift)]
            for i, cosine in enumerate(cosines)
        ]
        orders.append(places(search("word3", *loops))[:20])
    assert len(set(orders[0]) & set(orders[1])) >= 18


def test_the_moment_that_was_asked_for_comes_first_among_equals() -> None:
    ranked = search(
        "zeppelin last week",
        *OTHERS,
        [passage("a", 0, "A zeppelin landed")],
        [passage("b", 0, "A zeppelin landed", time=1.0)],
    )
    assert places(ranked)[:2] == [("b", 0), ("a", 0)]
    assert ranked[0].scores["time"] > 0
    assert "time" not in ranked[1].scores


def test_parts_add_up_and_relevance_lies_between_nought_and_one() -> None:
    loop = [
        passage("a", i, text, 0.8 + i / 50) for i, text in enumerate(["红色飞艇？", "是的", "好"])
    ]
    ranked = search("红色飞艇在哪里", *OTHERS, loop)
    assert [entry.score for entry in ranked] == [
        pytest.approx(sum(entry.scores.values()), abs=0.001) for entry in ranked
    ]
    assert all(0 <= entry.relevance <= 1 for entry in ranked)
    relevances = [entry.relevance for entry in ranked]
    assert relevances == sorted(relevances, reverse=True)


def test_the_order_does_not_depend_on_the_order_of_the_candidates() -> None:
    loop = [passage("a", i, f"turn {i} red?", 0.8) for i in range(6)]
    candidates = [in_context(loop, place) for place in range(6)]
    candidates += [InContext(each) for each in FILLER]
    question, corpus = read_question("red turn"), Corpus(16, {"red": 6, "turn": 6})
    expected = [(entry.ref, entry.score) for entry in rank(question, candidates, corpus)]
    for seed in range(5):
        random.Random(seed).shuffle(candidates)
        ranked = rank(question, candidates, corpus)
        assert [entry.ref for entry in ranked] == [ref for ref, _ in expected]


def test_equal_passages_stand_in_the_order_of_their_places() -> None:
    loops = [[passage(loop, 0, "the same words", 0.8)] for loop in "cab"]
    assert [loop for loop, _ in places(search("same words", *loops))] == ["a", "b", "c"]


def test_the_last_digits_of_a_cosine_do_not_tell_equal_passages_apart() -> None:
    cosines = {"c": 0.8000001, "a": 0.8, "b": 0.8000002}
    loops = [[passage(loop, 0, "the same words", cosine)] for loop, cosine in cosines.items()]
    ranked = search("same words", *loops)
    assert [loop for loop, _ in places(ranked)] == ["a", "b", "c"]
    assert len({entry.relevance for entry in ranked}) == 1


def test_a_single_chinese_character_finds_the_words_that_begin_with_it() -> None:
    ranked = search("猫", *OTHERS, [passage("a", 0, "我家的猫很懒")])
    assert places(ranked)[0] == ("a", 0)
    assert ranked[0].scores["words"] > 0


@pytest.mark.parametrize("text", ["", "?", "   ", "\ud83d", "x" * 2_000, "？" * 5_000])
def test_odd_texts_are_ranked_like_any_other(text: str) -> None:
    ranked = search("what is x", [passage("a", 0, text, 0.8), passage("a", 1, "x", None)])
    assert len(ranked) == 2


def test_extreme_cosines_keep_relevance_within_bounds() -> None:
    loops = [[passage(f"l{i}", 0, "red", cosine)] for i, cosine in enumerate((1e6, -1e6, 0.0))]
    assert all(0 <= entry.relevance <= 1 for entry in search("red", *loops))


def test_words_that_say_nothing_are_not_looked_up_unless_alone() -> None:
    assert read_question("What was the zeppelin?").terms == ("zeppelin",)
    assert set(read_question("what was that").terms) <= STOP_WORDS
    assert read_question("what was that").terms


def test_a_question_of_one_line_is_embedded_once() -> None:
    assert read_question("Note: buy milk").texts == ("Note: buy milk",)
    assert read_question("two\nlines").texts == ("two\nlines",)


def test_lists_with_labels_are_no_dialogue() -> None:
    query = "Name: Ann\nAge: 30\nTown: Bern"
    assert read_question(query).texts == (query,)
    assert set(read_question(query).terms) >= {"ann", "30", "bern"}


def test_in_a_dialogue_the_one_who_speaks_last_asks() -> None:
    query = "小明：我丢了钥匙\n助手：在哪里丢的？\n小明：在\n公园里"
    question = read_question(query)
    assert question.texts == (
        "小明：我丢了钥匙\n小明：在\n公园里",
        "助手：在哪里丢的？\n小明：在\n公园里",
    )
    assert "钥匙" in question.terms
    assert "里丢" not in question.terms


def test_the_vector_of_a_dialogue_is_the_direction_of_both_texts() -> None:
    both = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    assert query_vector(both) == pytest.approx(np.array([[0.5**0.5, 0.5**0.5]]))
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32)
    assert query_vector(opposite) == pytest.approx(np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="at least one text"):
        query_vector(np.zeros((0, 2), np.float32))


def test_common_words_are_left_out_only_when_the_store_is_large() -> None:
    assert rare_terms(["a", "b"], {"a": 10, "b": 500}) == ["a", "b"]
    assert rare_terms(["a", "b"], {"a": 10, "b": POSTINGS}) == ["a"]
    assert rare_terms(["b"], {"b": 10 * POSTINGS}) == ["b"]
    assert rare_terms(["unknown"], {}) == []
