"""`rondo bench memory` in its smallest form: what it reports, not how fast it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest

from service.bench.memory.memory_dataset import Corpus, MixedEmbedder
from service.bench.memory.memory_report import Plan, of_archiving, of_searching, run
from service.bench.memory.memory_subject import Searched, Taken
from service.bench.parameters import BenchmarkError
from tests.support.memory.remembering import WordEmbedder

SMALL = ("--sizes", "200", "--sample", "20", "--queries", "2")


def small(*, real: bool = False) -> dict[str, Any]:
    return run(
        Plan(
            sizes=(100, 200),
            sample=40,
            queries=2,
            real=real,
            make_embedder=WordEmbedder,
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("real", [False, True], ids=["mostly drawn", "all by the model"])
def test_each_size_has_its_figures_beside_those_of_the_baseline(real: bool) -> None:
    report = small(real=real)
    assert list(report["sizes"]) == ["100", "200"]
    for size, figures in report["sizes"].items():
        assert figures["segments"] == int(size)
        assert {"archive_per_s", "archive_baseline_per_s", "archive_ratio"} <= set(figures)
        assert {"search_p50_ms", "baseline_p50_ms", "search_ratio"} <= set(figures)
        assert figures["found"] > 0
        assert set(figures["filters"]) == {
            "type",
            "half_of_time",
            "hundredth_of_time",
            "run_loop",
            "metadata",
        }
        for of_filter in figures["filters"].values():
            assert of_filter["p50_ms"] > 0
            assert of_filter["ratio"] > 0
        assert figures["disk_bytes"] > figures["baseline_disk_bytes"] > 0
    assert ("drawn" in report["real"]["fill"]) is not real


def test_ratios_are_subject_over_baseline_at_the_median() -> None:
    blocks = [Taken(100, subject, 4.0) for subject in (5.0, 5.0, 50.0)]
    archived = of_archiving([Taken(1000, 2.0, 1.0)], blocks)
    assert (archived["archive_per_s"], archived["archive_baseline_per_s"]) == (20, 25)
    assert archived["archive_ratio"] == 0.8
    assert (archived["fill_per_s"], archived["fill_baseline_per_s"]) == (500, 1000)

    free = [Searched("", subject, 10.0, is_hit) for subject, is_hit in ((11, True), (12, False))]
    filtered = [Searched("type", 18.0, 10.0, False)]
    searched = of_searching([*free, *filtered])
    assert searched["search_ratio"] == 1.15
    assert searched["found"] == 0.5
    assert searched["filters"] == {"type": {"p50_ms": 18, "p95_ms": 18, "ratio": 1.8}}


def test_it_says_what_it_needs_when_there_is_no_embedder() -> None:
    with pytest.raises(BenchmarkError, match="none is configured"):
        run(Plan(make_embedder=lambda: None))


def test_the_same_seed_makes_the_same_run_loops_and_another_one_others() -> None:
    first, again, other = (
        list(islice(Corpus(seed).run_loops(owner="me"), 3)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_words_are_as_frequent_as_words_are_and_half_of_them_are_chinese() -> None:
    loops = list(islice(Corpus(0).run_loops(owner="me"), 60))
    english, chinese = (
        [turn.response or "" for loop in loops[first::2] for turn in loop.iterations]
        for first in (0, 1)
    )
    assert all(text.isascii() for text in english)
    assert all("\u4e00" <= text[0] <= "\u9fff" for text in chinese)
    words = Counter(word for text in english for word in text.rstrip(".").split())
    counts = [count for _, count in words.most_common()]
    assert counts[0] > 5 * counts[20]  # few are everywhere
    assert sum(count == 1 for count in counts) > len(counts) / 3  # and most are rare


def test_drawn_vectors_lie_around_those_of_the_model_and_questions_near_their_passage() -> None:
    mixed = MixedEmbedder(WordEmbedder(), all_real=False, samples=["one text", "another text"])
    mixed.by_model = False
    passages = mixed.embed_passages([f"passage {number}" for number in range(50)])
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    assert np.allclose(passages, mixed.vectors_again([f"passage {number}" for number in range(50)]))
    cosines = passages @ passages.T
    assert 0.6 < np.median(cosines) < 0.9
    mixed.expect("what of 7?", "passage 7")
    assert int(np.argmax(mixed.embed_queries(["what of 7?"]) @ passages.T)) == 7


@pytest.mark.slow
def test_the_command_prints_json_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "bench", "memory", *SMALL, "--json"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["sizes"]["200"]["segments"] == 200
    assert "multilingual-e5-small" in report["embedder"]
