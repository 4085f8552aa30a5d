"""The shipped model on hand-made cases, with vectors of the bundled embedder and without."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.domain.errors import ConfigurationError
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.routing import routing_model
from service.routing.features.feature_set import (
    CANDIDATE_FEATURES,
    CONTEXT_FEATURES,
    PAIR_FEATURES,
    features,
)
from service.routing.features.turn_features import EXCHANGE_FEATURES
from service.routing.route_reasons import JOIN_GROUPS, JOIN_THEMES, NEW_THEMES, for_join
from service.routing.routing_model import Judgement, read_model, shipped
from service.routing.text.text_reading import Candidate
from tests.support.agent.routing_cases import (
    NOW,
    Embed,
    dumplings_zh,
    invoice,
    lisbon,
    topic,
    weather_zh,
)

Topic = Callable[..., Candidate]
ENGLISH: Sequence[tuple[str, Topic | None]] = (
    ("Is Hotel Aurora quiet at night?", lisbon),
    ("I paid it on the 3rd of March.", invoice),
    ("Hi, I'd like to book a table for two tonight.", None),
    ("Hello! Can you help me with a birthday card for my niece?", None),
)
CHINESE: Sequence[tuple[str, Topic | None]] = (
    ("这家餐馆的电话是多少？", dumplings_zh),
    ("后天北京会下雨吗？", weather_zh),
    ("你好，我想买一张去上海的火车票。", None),
    ("您好，请帮我写一封请假邮件。", None),
)


@pytest.fixture(scope="module")
def embed() -> Embed:
    embedder = SentenceTransformerEmbedder("bundled:multilingual-e5-small", quick_start=False)
    vectors: dict[str, NDArray[np.float32]] = {}

    def cached(texts: Sequence[str]) -> NDArray[np.float32]:
        for text in texts:
            if text not in vectors:
                vectors[text] = embedder.embed_queries([text])[0]
        return np.stack([vectors[text] for text in texts])

    return cached


def judged(
    text: str, topics: Sequence[Topic], embed: Embed | None = None
) -> tuple[str | None, Judgement]:
    candidates = [each(embed) for each in topics]
    vector = embed([text])[0] if embed is not None else None
    judgement = shipped().judge(text, NOW, candidates, vector)
    return (None if judgement.best is None else candidates[judgement.best].id), judgement


@pytest.mark.parametrize(("text", "expected"), ENGLISH)
def test_a_message_goes_where_it_belongs_by_its_words(text: str, expected: Topic | None) -> None:
    went, _ = judged(text, [lisbon, invoice])
    assert went == (expected().id if expected else None)


@pytest.mark.parametrize(("text", "expected"), CHINESE)
def test_a_chinese_message_goes_where_it_belongs_by_its_words(
    text: str, expected: Topic | None
) -> None:
    went, _ = judged(text, [weather_zh, dumplings_zh])
    assert went == (expected().id if expected else None)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "expected"), [*ENGLISH, *CHINESE])
def test_a_message_goes_where_it_belongs_among_topics_of_both_languages(
    text: str, expected: Topic | None, embed: Embed
) -> None:
    went, _ = judged(text, [lisbon, weather_zh, invoice, dumplings_zh], embed)
    assert went == (expected().id if expected else None)


@pytest.mark.slow
def test_a_message_of_another_embedder_is_judged_by_its_words(embed: Embed) -> None:
    text = "Is Hotel Aurora quiet at night?"
    candidates = [lisbon(embed), invoice(embed)]
    by_words = shipped().judge(text, NOW, candidates)
    short = np.ones(8, dtype=np.float32) / math.sqrt(8)
    assert shipped().judge(text, NOW, candidates, short) == by_words


@pytest.mark.slow
def test_turns_without_a_vector_are_no_obstacle(embed: Embed) -> None:
    text = "Is Hotel Aurora quiet at night?"
    judgement = shipped().judge(text, NOW, [lisbon(), invoice(embed)], embed([text])[0])
    assert sum(judgement.probabilities) + judgement.new == pytest.approx(1.0)


def test_without_candidates_a_message_opens_a_topic() -> None:
    _, judgement = judged("hello", [])
    assert judgement.new == judgement.confidence == 1.0
    assert judgement.probabilities == ()
    assert judgement.best is None


def test_one_candidate_is_not_joined_by_what_has_nothing_to_do_with_it() -> None:
    went, _ = judged("Hi, I'd like to learn how to tune a violin.", [invoice])
    assert went is None


def test_fifty_candidates_are_told_apart() -> None:
    others = [
        topic(f"m{number}", f"note {number} about topic{number}", "Noted.", ago=60.0 * number + 5)
        for number in range(49)
    ]
    judgement = shipped().judge(
        "Is Hotel Aurora by the river quiet?", NOW, [*others, lisbon(ago=400)]
    )
    assert len(judgement.probabilities) == 50
    assert sum(judgement.probabilities) + judgement.new == pytest.approx(1.0)
    assert int(np.argmax(judgement.probabilities)) == 49


@pytest.mark.slow
def test_a_topic_that_rested_for_hours_is_found_among_twenty_when_it_is_named(
    embed: Embed,
) -> None:
    others = [
        topic(
            f"m{number}",
            f"note {number} about topic{number}",
            "Noted.",
            ago=60.0 * number + 5,
            embed=embed,
        )
        for number in range(19)
    ]
    text = "Is Hotel Aurora by the river quiet?"
    candidates = [*others, lisbon(embed, ago=7200)]
    judgement = shipped().judge(text, NOW, candidates, embed([text])[0])
    assert judgement.best == 19


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "newest"),
    [("好的", 3), ("谢谢", 2), ("嗯", 3), ("ok, thanks", 0), ("great", 1), ("thank you!", 1)],
)
def test_what_names_nothing_goes_to_what_was_spoken_of_just_now(
    text: str, newest: int, embed: Embed
) -> None:
    topics = (lisbon, invoice, weather_zh, dumplings_zh)
    candidates = [of(embed, ago=20 if place == newest else 7200) for place, of in enumerate(topics)]
    judgement = shipped().judge(text, NOW, candidates, embed([text])[0])
    assert judgement.best == newest


@pytest.mark.slow
@pytest.mark.parametrize("text", ["Make it shorter", "ok, thanks", "再短一点"])
def test_a_follow_up_in_the_other_language_goes_on_with_the_topic(text: str, embed: Embed) -> None:
    mail = topic(
        "mail",
        "帮我写封英文邮件给房东，说暖气坏了",
        "Dear Mr. Wood, the heating in our flat is out of order. Could you send someone?",
        ago=20,
        embed=embed,
    )
    for others in ([], [lisbon(embed, ago=7200)], [dumplings_zh(embed, ago=7200)]):
        judgement = shipped().judge(text, NOW, [*others, mail], embed([text])[0])
        assert judgement.best == len(others)


@pytest.mark.parametrize("text", ["", "\x00", "?", "a" * 300_000, "天" * 100_000, "😀 " * 9])
def test_any_text_is_judged(text: str) -> None:
    _, judgement = judged(text, [lisbon, weather_zh])
    assert sum(judgement.probabilities) + judgement.new == pytest.approx(1.0)
    assert judgement.confidence == max(*judgement.probabilities, judgement.new)
    assert judgement.reason


def test_the_same_message_gets_the_same_judgement() -> None:
    topics = [lisbon, invoice, weather_zh]
    assert judged("and in June?", topics) == judged("and in June?", topics)


def test_the_order_of_the_candidates_does_not_decide() -> None:
    topics = [lisbon, invoice, weather_zh, dumplings_zh]
    went, judgement = judged("Is Hotel Aurora quiet at night?", topics)
    went_back, backwards = judged("Is Hotel Aurora quiet at night?", topics[::-1])
    assert went == went_back
    assert judgement.probabilities == pytest.approx(backwards.probabilities[::-1])


def test_the_reason_says_what_spoke_for_it() -> None:
    _, joined = judged("I paid RX-4471 on Monday, the plumber's invoice.", [lisbon, invoice])
    assert "names" in joined.reason or "words" in joined.reason
    _, opened = judged("Hi, I'd like to book a table for two tonight.", [invoice])
    assert "opening of a topic" in opened.reason


def test_every_feature_between_candidates_and_of_new_has_words() -> None:
    assert set(PAIR_FEATURES) == JOIN_THEMES.keys() & set(PAIR_FEATURES)
    assert set(CONTEXT_FEATURES) == set(NEW_THEMES)


def test_what_the_turns_say_is_named_where_nothing_else_spoke() -> None:
    gains = dict.fromkeys((*JOIN_GROUPS, "turns"), 0.0)
    assert for_join([*gains.values()]) == "it fits the others less"
    gains["turns"] = 2.0
    assert for_join([*gains.values()]) == "it goes on from what was said there"
    gains["it names what only that topic speaks of"] = 0.1
    assert for_join([*gains.values()]) == "it names what only that topic speaks of"


def _written() -> dict[str, Any]:
    text = (
        resources.files(routing_model.__package__).joinpath("routing_model.json").read_text("utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_the_file_says_what_it_was_trained_on_and_how_sure_it_may_be() -> None:
    written = _written()
    assert {"set", "messages", "weight", "sha256"} <= written["trained_on"][0].keys()
    for name in ("with_vectors", "words_only"):
        curve = written[name]["calibration"]
        assert sum(each["messages"] for each in curve) > 1000
        off = sum(abs(each["confidence"] - each["right"]) * each["messages"] for each in curve)
        assert off / sum(each["messages"] for each in curve) <= 0.06


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("candidate_features", CANDIDATE_FEATURES[1:]),
        ("context_features", CONTEXT_FEATURES[1:]),
        ("exchange_features", EXCHANGE_FEATURES[1:]),
    ],
)
def test_a_model_of_other_features_is_refused_with_words(kind: str, names: Sequence[str]) -> None:
    written = _written()
    written[kind] = list(names)
    with pytest.raises(ConfigurationError) as caught:
        read_model(written)
    assert "train" in caught.value.advice


def test_the_words_alone_never_look_at_a_vector() -> None:
    for network in shipped().words_only.networks:
        assert network.encoder is None
        for inputs in (network.exchanges, network.candidates, network.context):
            assert not {name for name in inputs.names if "cos" in name or "centred" in name}


def test_a_gain_is_what_the_score_loses_with_the_features_of_the_other(embed: Embed) -> None:
    text = "I paid RX-4471 on Monday, the plumber's invoice."
    candidates = [lisbon(embed), invoice(embed)]
    inputs = features(text, NOW, candidates, embed([text])[0])
    network = shipped().with_vectors.networks[0]
    passed = network.passed(inputs.candidates, inputs.context, inputs.exchanges)
    every = [frozenset(network.candidates.names), frozenset[str]()]
    alike, nothing, of_turns = network.join_gains(passed, 1, 1, every)
    assert alike == nothing == of_turns == pytest.approx(0.0, abs=1e-5)
    all_features, nothing, of_turns = network.join_gains(passed, 1, 0, every)
    assert nothing == pytest.approx(0.0, abs=1e-5)
    assert all_features + of_turns > 0, "what it says and what its turns say, together"
    assert all_features != 0 != of_turns


def test_of_a_language_that_was_not_learned_the_network_makes_nothing_of_vectors(
    embed: Embed,
) -> None:
    model = shipped()
    unlearned = replace(model, openings=replace(model.openings, scripts=("han",)))
    text = "Is Hotel Aurora quiet at night?"
    candidates = [lisbon(embed), invoice(embed)]
    learned = model.judge(text, NOW, candidates, embed([text])[0])
    judgement = unlearned.judge(text, NOW, candidates, embed([text])[0])
    assert judgement.by_meaning
    assert judgement.best == learned.best == 0
    assert judgement.probabilities != learned.probabilities
