"""What is read out of a message and its candidates, by hand-made cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.domain.text import NO_SCRIPT, main_script
from service.routing.features.embedding_features import NEARNESS_FEATURES, lead
from service.routing.features.feature_set import (
    CANDIDATE_FEATURES,
    CONTEXT_FEATURES,
    HABITS_OF_LATE,
    Features,
    features,
)
from service.routing.features.turn_features import EXCHANGE_FEATURES
from service.routing.text.message_shape import shape
from service.routing.text.text_reading import MOST_TURNS, Candidate, Turn, clear_cache, read
from service.routing.text.word_pieces import pieces
from tests.support.agent.routing_cases import NOW, dumplings_zh, invoice, lisbon, topic, weather_zh


def of(measured: Features, name: str) -> list[float]:
    return [float(each) for each in measured.candidates[:, CANDIDATE_FEATURES.index(name)]]


@pytest.mark.parametrize("text", ["Hi, can you help me?", "hello there", "你好，请问", "您好"])
def test_a_greeting_is_seen(text: str) -> None:
    assert shape(text).greets


@pytest.mark.parametrize("text", ["This is high time.", "的你好吗", "history of Rome", ""])
def test_what_only_looks_like_a_greeting_is_none(text: str) -> None:
    assert not shape(text).greets


@pytest.mark.parametrize("text", ["And Beijing?", "what about Friday?", "那北京呢？", "还有别的吗"])
def test_a_follow_up_is_seen(text: str) -> None:
    assert shape(text).follows_up


def test_what_stands_behind_a_greeting_is_read_without_it() -> None:
    assert shape("Hi, and what about Friday?").follows_up


@pytest.mark.parametrize("text", ["Thanks, that's all.", "好的，谢谢。", "没有其他问题了", "bye!"])
def test_a_farewell_is_seen(text: str) -> None:
    assert shape(text).bids_farewell


@pytest.mark.parametrize(
    "text", ["Which day?", "Please provide your name.", "可以吗", "请提供地址。"]
)
def test_a_question_to_the_person_is_seen(text: str) -> None:
    assert shape(text).asks


def test_a_curly_apostrophe_is_one_as_well() -> None:
    assert shape("I’d like a table for two").requests
    assert shape("it’s blue").answers


def test_codes_are_numbers_identifiers_and_addresses() -> None:
    codes = shape(
        "Send DF89BM of anna_lee_77 to anna@example.org, flight JFK, 12 seats, v1.2"
    ).codes
    assert {"df89bm", "anna_lee_77", "anna@example.org", "jfk", "12", "v1.2"} <= codes
    assert "send" not in codes


def test_what_is_pointed_at_is_named() -> None:
    assert shape("Can you cancel this flight?").heads == {"flight"}
    assert "酒店" in shape("这家酒店的电话是多少").heads


def test_a_message_that_names_what_one_topic_alone_speaks_of_is_told() -> None:
    measured = features("RX-4471 was paid on Monday", NOW, [lisbon(), invoice()])
    assert of(measured, "codes_shared") == [0.0, 1.0]
    assert of(measured, "codes_elsewhere") == [1.0, 0.0]
    own = of(measured, "own_words")
    assert own[1] > own[0]


def test_chinese_words_are_shared_without_spaces() -> None:
    measured = features("这家餐馆的评分是多少？", NOW, [weather_zh(), dumplings_zh()])
    weather, dumplings = of(measured, "overlap_loop")
    assert dumplings > weather
    assert of(measured, "heads_in_last") == [0.0, 1.0]


def test_stop_words_weigh_little() -> None:
    measured = features("is it the river", NOW, [lisbon(), topic("x", "is it the one that it is")])
    lisbon_share, other_share = of(measured, "overlap_loop")
    assert lisbon_share > other_share


def test_the_order_of_the_candidates_changes_nothing_but_the_order() -> None:
    candidates = [lisbon(), invoice(), weather_zh(), dumplings_zh()]
    one = features("And the hotel?", NOW, candidates)
    other = features("And the hotel?", NOW, candidates[::-1])
    np.testing.assert_allclose(one.candidates, other.candidates[::-1])
    np.testing.assert_allclose(one.context, other.context)


def test_the_same_input_gives_the_same_numbers_whatever_was_read_before() -> None:
    first = features("And the hotel?", NOW, [lisbon(), invoice()])
    clear_cache()
    features("something else", NOW, [weather_zh()])
    again = features("And the hotel?", NOW, [lisbon(), invoice()])
    np.testing.assert_array_equal(first.candidates, again.candidates)
    np.testing.assert_array_equal(first.context, again.context)


def test_a_loop_that_waits_for_an_answer_is_one_that_asked() -> None:
    silent = features("yes", NOW, [topic("a", "send it", "I can do that now.")])
    waiting = features("yes", NOW, [topic("a", "send it", "I can do that now.", awaiting=True)])
    assert of(silent, "last_asks") == [0.0]
    assert of(waiting, "last_asks") == of(waiting, "last_asks_yes_or_no") == [1.0]


def test_a_loop_whose_person_said_thanks_is_closed() -> None:
    open_one = topic("a", "find a plumber", "Here is one.", "what is the price?", "50 euros.")
    closed = topic("b", "find a plumber", "Here is one.", "Great, thank you!", "You're welcome!")
    measured = features("and an electrician", NOW, [open_one, closed])
    assert of(measured, "closed") == [0.0, 1.0]
    assert of(measured, "dismissed") == [0.0, 1.0]


def test_how_long_the_assistant_took_changes_nothing_about_time() -> None:
    soon = Turn("Done.", "assistant", NOW - 100)
    late = Turn("Done.", "assistant", NOW - 5)
    asked = Turn("book it", "user", NOW - 110)
    for name in ("seconds_since_user", "rank_by_time", "messages_between", "rhythm"):
        one, other = (
            features("thanks", NOW, [Candidate("a", asked, [asked, turn], 2)])
            for turn in (soon, late)
        )
        assert of(one, name) == of(other, name)


def test_without_vectors_nothing_is_said_of_nearness() -> None:
    measured = features("hello", NOW, [lisbon(), invoice()])
    count = len(NEARNESS_FEATURES)
    assert np.isnan(measured.candidates[:, :count]).all()
    names = CANDIDATE_FEATURES[count:]
    assert not np.isnan([of(measured, name) for name in names]).any()


def test_without_candidates_there_are_no_rows() -> None:
    measured = features("hello", NOW, [])
    assert measured.candidates.shape == (0, len(CANDIDATE_FEATURES))
    assert measured.context.shape == (len(CONTEXT_FEATURES),)


@pytest.mark.parametrize(
    "text", ["", "   ", "\x00", "😀" * 50, "a" * 300_000, "1 " * 100_000, "天" * 100_000, "?!…"]
)
def test_any_text_has_features(text: str) -> None:
    empty = topic("empty", text, text)
    measured = features(text, NOW, [empty, lisbon()])
    of_one_script = {"same_beginning", "same_end", "same_case"}
    for name in CANDIDATE_FEATURES[len(NEARNESS_FEATURES) :]:
        assert not np.isnan(of(measured, name)[: 1 if name in of_one_script else 2]).any(), name
    assert not np.isinf(measured.exchanges.rows).any()
    assert np.isfinite(read(text).shape.length)


@pytest.mark.parametrize(
    "text",
    [" ".join(f"word{n}" for n in range(150)), "".join(chr(0x4E00 + n) for n in range(900))],
)
def test_a_message_of_very_many_words_has_features(text: str) -> None:
    measured = features(text, NOW, [topic("same", text, text), lisbon()])
    column = EXCHANGE_FEATURES.index("overlap")
    assert measured.exchanges.rows[0, column] == pytest.approx(1.0)
    assert of(measured, "overlap_loop")[0] == pytest.approx(1.0)


def test_turns_in_another_script_say_nothing_of_the_hand() -> None:
    measured = features("make it shorter", NOW, [topic("zh", "帮我写一封邮件", "好的"), lisbon()])
    assert np.isnan(of(measured, "same_case")[0])
    assert list(of(measured, "same_script")) == [0.0, 1.0]
    unlettered = features("42?", NOW, [topic("zh", "帮我写一封邮件", "好的"), lisbon()])
    assert list(of(unlettered, "same_script")) == [1.0, 1.0]


def test_only_the_goal_and_the_newest_turns_are_read() -> None:
    many = [f"{'xyz'[n % 3]}{'bcdfghjklm'[n // 3 % 10]}uq{'aeiou'[n // 30]}" for n in range(40)]
    assert len(set(many)) == len(many) > 2 * MOST_TURNS
    measured = [features(word, NOW, [topic("a", *many)]) for word in (many[0], many[5], many[-1])]
    goal, early, late = (of(each, "own_words")[0] for each in measured)
    assert goal > 0
    assert early == 0
    assert late > 0


def test_a_message_that_is_older_than_the_loops_newest_turn_is_still_routed() -> None:
    measured = features("hello", NOW - 10_000, [lisbon()])
    names = CANDIDATE_FEATURES[len(NEARNESS_FEATURES) :]
    assert np.isfinite([of(measured, name) for name in names]).all()


def test_a_lead_is_what_is_ahead_of_the_best_other() -> None:
    np.testing.assert_allclose(lead(np.array([0.5, 0.8, 0.7])), [-0.3, 0.1, -0.1])
    np.testing.assert_allclose(lead(np.array([0.8, 0.8])), [0.0, 0.0])
    assert np.isnan(lead(np.array([0.8, math.nan]))).all()


def test_a_word_with_another_ending_or_an_error_shares_pieces() -> None:
    measured = features("the plumbers invoces", NOW, [lisbon(), invoice()])
    trip, bill = of(measured, "pieces_loop")
    assert bill > trip
    assert of(measured, "own_pieces")[1] > 0


def test_pieces_of_chinese_are_pairs_of_characters() -> None:
    assert "饺子" in pieces("老边饺子馆")
    assert "invo" in pieces("invoice")


def test_the_same_hand_is_nearer_than_another() -> None:
    casual = topic("a", "cant u fix my wifi... plz")
    formal = topic("b", "I cannot connect to the network.")
    measured = features("u dont know how to... plz", NOW, [casual, formal])
    apart = of(measured, "habits_apart")
    assert apart[0] < apart[1]
    assert of(measured, "lead_habits")[0] == pytest.approx(apart[1] - apart[0])


def test_what_all_turns_have_in_common_is_taken_away() -> None:
    common, topic, other = (np.eye(3, dtype=np.float32)[each] for each in range(3))

    def about(which: np.ndarray) -> np.ndarray:
        mixed = 3 * common + which
        return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)

    def of_topic(name: str, which: np.ndarray) -> Candidate:
        turns = [Turn("x", "user", NOW - 60, about(which)) for _ in range(4)]
        return Candidate(name, turns[0], turns, 4)

    candidates = [of_topic("a", topic), of_topic("b", other)]
    measured = features("x", NOW, candidates, about(topic))
    near, far = of(measured, "centred_best")
    assert near == pytest.approx(1.0, abs=1e-3)
    assert far == pytest.approx(-1.0, abs=1e-3)
    assert min(of(measured, "cos_best")) > 0.8


def test_of_few_turns_nothing_common_is_known() -> None:
    vector = np.ones(3, dtype=np.float32) / math.sqrt(3)
    measured = features(
        "x", NOW, [Candidate("a", t := Turn("x", "user", NOW, vector), [t], 1)], vector
    )
    assert math.isnan(of(measured, "centred_best")[0])
    assert of(measured, "cos_best")[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is it?", "latin"),
        ("Où est-ce ?", "latin"),
        ("请帮我订 Hotel Aurora", "cjk"),
        ("東京の天気はどうですか", "hiragana"),
        ("Где это?", "cyrillic"),
        ("42 :-)", NO_SCRIPT),
        ("", NO_SCRIPT),
        ("\ud83d\x00", NO_SCRIPT),
    ],
)
def test_a_text_has_the_script_of_its_letters(text: str, expected: str) -> None:
    assert main_script(text) == expected


@pytest.mark.parametrize(
    ("asks", "answer", "other"),
    [
        ("For how many people?", "two", "leather"),
        ("你想几点出发？", "明天早上", "靠窗"),
        ("Would you like me to book it?", "yes please", "Lisbon"),
    ],
)
def test_a_message_of_the_kind_that_was_asked_for_is_seen(
    asks: str, answer: str, other: str
) -> None:
    def asking(text: str) -> Candidate:
        goal = Turn("a table", "user", NOW - 60)
        return Candidate(text, goal, [goal, Turn(text, "assistant", NOW - 50)], 2)

    candidates = [asking(asks), asking("It is done.")]
    answered, missed = (features(each, NOW, candidates) for each in (answer, other))
    assert of(answered, "fits_kind") == [1.0, 0.0]
    assert of(answered, "misfits_kind") == [0.0, 0.0]
    assert of(missed, "fits_kind") == [0.0, 0.0]
    assert of(missed, "misfits_kind") == [1.0, 0.0]


def test_how_a_person_changed_topics_of_late_is_counted() -> None:
    def loop(name: str, *times: float) -> Candidate:
        turns = [Turn(name, "user", NOW - 100 + each) for each in times]
        return Candidate(name, turns[0], turns, len(turns))

    measured = features("and then?", NOW, [loop("a", 1, 2, 3, 7), loop("b", 4), loop("c", 5, 6)])
    late = {
        name: float(measured.context[CONTEXT_FEATURES.index(name)])
        for name in (*HABITS_OF_LATE, "open_loops")
    }
    assert late == pytest.approx(  # a a a b c c a: of the last five, a b c c a
        {
            "opened_of_late": 3 / 7,
            "stayed_of_late": 3 / 6,
            "opened_just_now": 2 / 5,
            "stayed_just_now": 1 / 4,
            "open_loops": math.log(4),
        }
    )
