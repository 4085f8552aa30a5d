"""The training of the router's model, on two small sets of our own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from service.agent.routing.features import features
from service.agent.routing.model import read_model
from service.bench.routing.boosting import Boosting
from service.bench.routing.metrics import NEW, Decision, calibration, measured
from service.bench.routing.projecting import Projecting, trained_projection
from service.bench.routing.replay import Asked, embedded, replay
from service.bench.routing.table import joined, projected, tabulated
from service.bench.routing.train import decisions, dumped, trained, written

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
    """Streams in which matters begin with a greeting and take turns at random."""
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
    found = list(replay(folder, {}))
    assert [[each.id for each in one.candidates] for one in found] == [[], ["a"], ["b"], ["a", "b"]]
    assert [one.right for one in found] == [NEW, NEW, NEW, 1]
    assert [turn.text for turn in found[3].candidates[0].turns] == ["09:00:00", "09:15:01"]


def test_figures_are_those_counted_by_hand() -> None:
    found = measured(
        [
            Decision(0, 0, 0.95),
            Decision(1, 0, 0.95),
            Decision(NEW, NEW, 0.55),
            Decision(NEW, 2, 0.55),
            Decision(0, NEW, 0.35),
        ]
    )
    assert found["accuracy"] == 0.4
    assert found["new_f1"] == 0.5
    assert found["ece"] == round((2 * 0.45 + 2 * 0.05 + 0.35) / 5, 4)
    assert list(found["kinds"].values()) == [1, 1, 1, 1, 1]
    assert [each["messages"] for each in calibration([Decision(0, 0, 1.0)])] == [1]


def test_a_table_holds_the_same_projected_features_as_a_single_message(
    asked: list[list[Asked]],
) -> None:
    table = tabulated(asked[0])
    projection = trained_projection([table], Projecting(dimensions=3, epochs=1))
    whole = projected(table, projection)
    bounds = [*whole.starts, len(whole.owner)]
    for place, each in enumerate(asked[0]):
        turn = each.turn
        alone = features(turn.text, turn.at, each.candidates, turn.vector, projection)
        own = whole.candidates[bounds[place] : bounds[place + 1]]
        np.testing.assert_allclose(own, alone.candidates, atol=1e-4)
        np.testing.assert_allclose(whole.context[place], alone.context, atol=1e-4)


def test_joined_tables_keep_each_message_with_its_candidates(asked: list[list[Asked]]) -> None:
    one, two = (tabulated(each) for each in asked)
    both = joined([one, two])
    np.testing.assert_array_equal(
        both.part(np.arange(len(both.right)) >= len(one.right)).right, two.right
    )
    later = both.part(np.arange(len(both.right)) >= len(one.right))
    np.testing.assert_array_equal(later.candidates, two.candidates)
    np.testing.assert_array_equal(later.turns[later.last], two.turns[two.last])


def test_training_again_writes_the_same_file_and_it_judges_as_it_was_trained(
    asked: list[list[Asked]],
) -> None:
    tables = [tabulated(each).weighing(1.0) for each in asked]
    boosting = Boosting(rounds=25, least_weight=1.0, rate=0.2)
    projecting = Projecting(dimensions=3, epochs=2)
    first, second = (trained(tables, boosting, projecting) for _ in range(2))
    text = dumped(written(first, [], {}, {}))
    assert text == dumped(written(second, [], {}, {}))
    model = read_model(json.loads(text))
    expected = decisions(first.with_vectors, projected(tables[1], first.projection))
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
