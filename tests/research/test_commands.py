"""The commands that fit the smaller models, each on a part of its data, with the real embedder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.memory.embedders.bundled_e5 import token_centres

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "data"


def run(module: str, *arguments: str | Path) -> dict[str, Any]:
    """What a command tells."""
    done = subprocess.run(
        [sys.executable, "-m", f"research.{module}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def excerpt(name: str, folder: Path, every: int) -> Path:
    """A folder in which each file of the data has one line of so many."""
    target = folder / name
    target.mkdir(parents=True)
    for source in (DATA / name).glob("*.jsonl"):
        lines = source.read_text("utf-8").splitlines(keepends=True)[::every]
        (target / source.name).write_text("".join(lines), "utf-8")
    return target


def test_what_is_personal_is_fitted_and_written(tmp_path: Path) -> None:
    written = tmp_path / "personal.json"
    fitted = run("fit_personal", excerpt("personal", tmp_path, every=8), written)
    model = json.loads(written.read_text("utf-8"))
    assert len(model["weights"]) == 384
    assert np.any(model["weights"])
    assert fitted["train"]["right"] > 0.8 * fitted["train"]["messages"]


def test_what_claims_a_deed_is_fitted_and_written(tmp_path: Path) -> None:
    written = tmp_path / "claims.json"
    measured = run("fit_claims", excerpt("claims", tmp_path, every=4), written)
    model = json.loads(written.read_text("utf-8"))
    assert {"en", "zh"} <= model.keys()
    assert any(model["en"]["weights"].values())
    assert measured["test"]["en"]["precision"] > 0.5


def test_limits_and_where_they_matter_are_fitted_and_written(tmp_path: Path) -> None:
    written = tmp_path / "care.json"
    fitted = run("care.fit_limits", excerpt("care", tmp_path, every=12), written)
    assert {"form", "limit", "limit_bias"} <= set(json.loads(written.read_text("utf-8")))
    assert fitted["train"]["recall"] > 0.8


def test_what_answers_an_open_question_is_fitted(tmp_path: Path) -> None:
    fitted = run("fit_waiting", excerpt("routing/waiting", tmp_path, every=4) / "dev.jsonl")
    for kind in ("with_vectors", "words_only"):
        assert any(fitted[kind]["weights"].values())
        assert 0 <= fitted[kind]["en"]["elsewhere"] < 0.5


def test_the_weights_of_the_ranking_are_fitted() -> None:
    fitted = run("fit_ranking", DATA / "memory" / "relevance" / "everyday-dev")
    assert fitted["weights"]["meaning"] == 1.0
    assert fitted["weights"]["question"] <= 0 <= fitted["weights"]["words"]
    assert fitted["usual_spread"] > 0
    assert 0 < fitted["meaning_by_cosine"] < 1
    (recall_at_5, recall_at_10) = fitted["fitted to all"]["everyday-dev"]
    assert 60 < recall_at_5 <= recall_at_10 <= 100


def test_the_usual_states_of_tokens_are_found_again(tmp_path: Path) -> None:
    messages = tmp_path / "routing" / "everyday"
    messages.mkdir(parents=True)
    for source in (DATA / "fixtures" / "routing" / "everyday").glob("*.jsonl"):
        (messages / source.name).write_text(2 * source.read_text("utf-8"), "utf-8")
    sets = tmp_path / "retrieval"
    shutil.copytree(DATA / "memory" / "relevance" / "everyday-dev", sets / "everyday-dev")
    found = run("fit_token_centres", tmp_path, "--print")
    shipped, centres = token_centres(), found["centres"]
    assert centres["sets"] == {"han": ["everyday"], "other": ["everyday"]}
    for script in ("han", "other"):
        assert _likeness(np.array(centres[script]), getattr(shipped, script)) > 0.9
    between = np.array(centres["han"]) - np.array(centres["other"])
    assert _likeness(between, shipped.han - shipped.other) > 0.3
    assert len(found["shift"]) == 384


def _likeness(one: Any, other: Any) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_relevance_is_fitted_and_held_sets_are_only_measured() -> None:
    sets = [DATA / "memory" / "relevance" / name for name in ("everyday-dev", "everyday-test")]
    fitted = run("fit_relevance", *sets)
    for each in fitted.values():
        assert each["weights"]["words"] > 0
        assert each["questions"]["fitted"] > 0
        assert each["questions"]["held"] > 0
        assert 0 <= each["kept, held"]["far"] < each["kept, held"]["said"]
