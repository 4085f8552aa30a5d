"""The training of the router's model, on two small sets of our own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from research.routing.crossing import Crossed, Scores, curves, figures
from research.routing.feature_table import joined, tabulated
from research.routing.model_file import dumped, written
from research.routing.networks import Networking, trained_network, trained_with_feeds
from research.routing.openings import Opening, trained_openings
from research.routing.replay import Asked, embedded, replay
from research.routing.resting import rested
from research.routing.train_router import (
    Training,
    cross_checked,
    thirds,
    trained,
)
from service.bench.routing.routing_figures import NEW, Decision, calibration, measured
from service.routing.features.feature_set import features
from service.routing.routing_model import read_model
from service.routing.text.text_reading import Candidate, Turn

SMALL = Networking(hidden=8, encoded=3, of_message=2, epochs=3, rate=0.02, warm_up=5)
_TOPICS = ("violin", "garden", "passport", "bicycle", "dentist")


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """The same direction for the same words, in eight dimensions."""
    rows = []
    for text in texts:
        row = np.full(8, 0.05, dtype=np.float32)
        for word in text.lower().split():
            row[hashlib.sha256(word.encode()).digest()[0] % 8] += 1
        rows.append(row / np.linalg.norm(row))
    return np.stack(rows)


def write_set(folder: Path, files: int, seed: int) -> Path:
    """Streams in which topics begin with a greeting and take turns at random."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    for number in range(files):
        lines, seconds, opened = [], 0, 0
        for place in range(60):
            seconds += int(random.integers(10, 60))
            begins = opened == 0 or random.random() < 0.15
            thread = opened if begins else int(random.integers(max(0, opened - 3), opened))
            opened += begins
            topic = _TOPICS[thread % len(_TOPICS)]
            text = f"Hi, I need a {topic}" if begins else f"and the {topic} for {place} euros?"
            for role, said in (("user", text), ("assistant", f"About the {topic}: which one?")):
                at = (
                    f"2026-03-01T{9 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
                )
                line = {"id": f"{number}:{place}{role}", "text": said, "at": f"{at}+00:00"}
                lines.append(json.dumps({**line, "thread": f"t{thread}", "role": role}))
                seconds += 4
        (folder / f"{number}.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[list[Asked]]:
    where = tmp_path_factory.mktemp("sets")
    folders = [write_set(where / "one", 4, seed=1), write_set(where / "two", 3, seed=2)]
    vectors = embedded(folders, embed)
    return [list(replay(folder, vectors)) for folder in folders]


def test_threads_that_rested_too_long_are_no_candidates(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    said = [("a", "09:00:00"), ("b", "09:10:00"), ("a", "09:15:01"), ("b", "09:25:00")]
    lines = [
        {"id": at, "text": at, "at": f"2026-03-01T{at}+00:00", "thread": name, "role": "user"}
        for name, at in said
    ]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    replayed = list(replay(folder, {}))
    assert [[each.id for each in one.candidates] for one in replayed] == [
        [],
        ["a"],
        ["b"],
        ["a", "b"],
    ]
    assert [one.right for one in replayed] == [NEW, NEW, NEW, 1]
    assert [turn.text for turn in replayed[3].candidates[0].turns] == ["09:00:00", "09:15:01"]


def test_figures_are_those_counted_by_hand() -> None:
    measurements = measured(
        [
            Decision(0, 0, 0.95),
            Decision(1, 0, 0.95),
            Decision(NEW, NEW, 0.55),
            Decision(NEW, 2, 0.55),
            Decision(0, NEW, 0.35),
        ]
    )
    assert measurements["accuracy"] == 0.4
    assert measurements["new_f1"] == 0.5
    assert measurements["ece"] == round((2 * 0.45 + 2 * 0.05 + 0.35) / 5, 4)
    assert list(measurements["kinds"].values()) == [1, 1, 1, 1, 1]
    assert [each["messages"] for each in calibration([Decision(0, 0, 1.0)])] == [1]


@pytest.mark.slow
def test_a_table_holds_the_same_features_as_a_single_message(
    asked: list[list[Asked]],
) -> None:
    whole = tabulated(asked[0])
    bounds = [*whole.starts, len(whole.owner)]
    feature_rows = list(whole.features_of())
    for place, each in enumerate(asked[0]):
        turn = each.turn
        alone = features(turn.text, turn.at, each.candidates, turn.vector)
        own = whole.candidates[bounds[place] : bounds[place + 1]]
        np.testing.assert_allclose(own, alone.candidates, atol=1e-4)
        np.testing.assert_allclose(whole.context[place], alone.context, atol=1e-4)
        np.testing.assert_allclose(
            feature_rows[place].exchanges.rows, alone.exchanges.rows, atol=1e-4
        )
        np.testing.assert_array_equal(feature_rows[place].exchanges.starts, alone.exchanges.starts)
        for one, other in zip(
            feature_rows[place].exchanges.heard, alone.exchanges.heard, strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_network_gives_the_same_scores_as_when_it_was_trained(asked: list[list[Asked]]) -> None:
    tables = [tabulated(each).weighing(1.0) for each in asked]
    for sees_vectors in (True, False):
        net, feed, network = trained_with_feeds(tables, SMALL, sees_vectors=sees_vectors)
        net.eval()
        messages = np.arange(len(tables[1].right))
        with torch.no_grad():
            join, new = net(feed[1].batch(messages, network.of_message))
        scores = [
            network.scores(each.candidates, each.context, each.exchanges)
            for each in tables[1].features_of()
            if len(each.candidates)
        ]
        has_candidates = np.isin(messages, tables[1].owner)
        np.testing.assert_allclose(np.concatenate([s[0] for s in scores]), join, atol=1e-5)
        np.testing.assert_allclose([s[1] for s in scores], new.numpy()[has_candidates], atol=1e-5)


@pytest.mark.slow
def test_a_network_survives_turns_without_vectors(asked: list[list[Asked]]) -> None:
    network = trained_network([tabulated(asked[0])], SMALL, sees_vectors=True)
    each = asked[0][-1]
    candidates = [
        replace(c, turns=[replace(turn, vector=None) for turn in c.turns]) for c in each.candidates
    ]
    candidates[0] = each.candidates[0]
    message_features = features(each.turn.text, each.turn.at, candidates, each.turn.vector)
    join, new = network.scores(
        message_features.candidates, message_features.context, message_features.exchanges
    )
    assert np.isfinite([*join, new]).all()


@pytest.mark.slow
def test_openings_are_told_in_the_scripts_that_were_learned(asked: list[list[Asked]]) -> None:
    openings = trained_openings([tabulated(asked[0])], Opening(dimensions=3, epochs=4))
    assert openings.scripts == ("latin",)
    for text, is_known in (("and the violin?", True), ("那小提琴呢？", False), ("42", True)):
        assert openings.knows(text) is is_known
    opening, going_on = embed(["Hi, I need a violin", "and the violin for 7 euros?"])
    assert openings.opens(opening) > openings.opens(going_on)


def test_candidates_that_rested_are_older_and_otherwise_the_same(
    asked: list[list[Asked]],
) -> None:
    whole = {each.id: each for each in asked[0]}
    copies = rested(asked[0], seed=3, share=1.0)
    assert len(copies) > len(asked[0]) / 2
    for copy in copies:
        original = whole[copy.id]
        assert (copy.right, copy.turn) == (original.right, original.turn)
        pairs = list(zip(original.candidates, copy.candidates, strict=True))
        assert any(one != other for one, other in pairs)
        for before, after in pairs:
            turns = zip((before.goal, *before.turns), (after.goal, *after.turns), strict=True)
            moved = {round(one.at - other.at) for one, other in turns}
            assert len(moved) == 1
            assert moved == {0} or min(moved) >= 300
            assert [turn.text for turn in before.turns] == [turn.text for turn in after.turns]
    assert rested(asked[0], seed=3, share=1.0) == copies


def test_a_topic_has_rested_only_where_the_message_names_it() -> None:
    def at(text: str, *said: str) -> Asked:
        turns = [Turn(each, "user", 1000.0) for each in said]
        candidates = tuple(Candidate(turn.text, turn, [turn], 1) for turn in turns)
        return Asked(0, text, Turn(text, "user", 1100.0), candidates, 0)

    nameless = rested([at("and then?", "the violin", "the garden")] * 50, seed=1, share=1.0)
    named = rested([at("tune the violin", "the violin", "the garden")] * 50, seed=1, share=1.0)
    assert {each.candidates[0].goal.at for each in nameless} == {1000.0}
    assert min(each.candidates[0].goal.at for each in named) < 1000.0


@pytest.mark.slow
def test_joined_tables_keep_each_message_with_its_candidates(asked: list[list[Asked]]) -> None:
    one, two = (tabulated(each) for each in asked)
    both = joined([one, two])
    np.testing.assert_array_equal(
        both.part(np.arange(len(both.right)) >= len(one.right)).right, two.right
    )
    later = both.part(np.arange(len(both.right)) >= len(one.right))
    np.testing.assert_array_equal(later.candidates, two.candidates)
    np.testing.assert_array_equal(later.turns[later.last], two.turns[two.last])


@pytest.mark.slow
def test_training_again_writes_the_same_file_and_it_judges_as_it_was_trained(
    asked: list[list[Asked]],
) -> None:
    tables = [tabulated(each).weighing(1.0) for each in asked]
    how = Training(Opening(dimensions=3, epochs=2), SMALL, networks=2, words_only=1)
    first, second = (trained(tables, how) for _ in range(2))
    text = dumped(written(first, [], {}, {}))
    assert text == dumped(written(second, [], {}, {}))
    model = read_model(json.loads(text))
    expected = Scores.of(first.with_vectors, tables[1]).decisions()
    for each, decision in zip(asked[1], expected, strict=True):
        turn = each.turn
        judgement = model.judge(turn.text, turn.at, each.candidates, turn.vector)
        assert judgement.confidence == pytest.approx(decision.confidence, abs=0.02)
    assert measured(expected)["accuracy"] > 0.9
    blind = [model.judge(each.turn.text, each.turn.at, each.candidates) for each in asked[1]]
    right = [
        (-1 if j.best is None else j.best) == e.right for j, e in zip(blind, asked[1], strict=True)
    ]
    assert sum(right) > 0.9 * len(right)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_training_that_has_failed_writes_no_model(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dumped({"weights": [[0.5, number]]})


def test_a_scorer_that_is_too_sure_loses_less_when_it_is_cooled() -> None:
    join = np.array([4.0, 0.0] * 100)
    right = np.array([0] * 70 + [1] * 30)
    sure = Scores(join, np.full(100, -20.0), np.repeat(np.arange(100), 2), right, 1.0)
    assert sure.loss(4.0) < sure.loss(1.0)
    assert sure.loss(4.0) < sure.loss(12.0)
    assert Crossed([sure, sure]).loss(4.0) == pytest.approx(sure.loss(4.0) / 100)
    assert {each.chosen for each in sure.decisions()} == {0}
    assert measured(sure.decisions(4.72))["ece"] < 0.01 < measured(sure.decisions())["ece"]


@pytest.mark.slow
def test_each_message_is_judged_once_by_what_was_not_trained_on_its_file(
    asked: list[list[Asked]],
) -> None:
    how = Training(Opening(dimensions=2, epochs=1), SMALL, networks=1, words_only=1)
    tables = [
        joined([tabulated(each), tabulated(rested(each, 0), made_up=True)]).weighing(1.0)
        for each in asked
    ]
    crossed, temperatures = cross_checked(dict(zip(("one", "two"), tables, strict=True)), how)
    by_kind = figures(crossed, temperatures)
    for kind in ("with_vectors", "words_only"):
        assert 0.6 <= temperatures[kind] <= 1.8
        for name, messages in zip(("one", "two"), asked, strict=True):
            assert by_kind[kind][name]["all"]["messages"] == len(messages)
            assert [each["messages"] for each in by_kind[kind][name]["thirds"]] == [
                sum(file % 3 == third for file in (each.file for each in messages))
                for third in range(3)
            ]
            assert by_kind[kind][name]["all"]["accuracy"] > 0.7
        curve = curves(crossed, temperatures)[kind]
        assert sum(each["messages"] for each in curve) == sum(map(len, asked))
    assert set(thirds(tables[0]).tolist()) == {0, 1, 2}
