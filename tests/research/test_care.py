"""What tells a person's limits, and where they matter, is right as often as the docs say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from research.care.fit_limits import PARTS, figures
from research.care.limit_dataset import read_part
from service.bench.parameters import BenchmarkError
from service.domain.errors import ConfigurationError
from service.loop.recall.care.limit_model import read_model, shipped
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

DATA = Path(__file__).parents[2] / "data" / "care"


@pytest.mark.slow
def test_limits_that_nobody_has_looked_at_are_found_and_told_where_they_matter(
    bundled: SentenceTransformerEmbedder,
) -> None:
    part = read_part(DATA, "test")
    texts = sorted(part.texts())
    vectors = dict(zip(texts, bundled.embed_queries(texts).astype(np.float64), strict=True))
    measured = figures(shipped(), part, vectors)
    assert measured["recall"] >= 0.95
    assert measured["precision"] >= 0.85
    assert measured["told"]["own"][0] >= 0.93
    assert measured["told"]["none"][0] <= 0.08


@pytest.mark.slow
def test_no_sentence_is_in_two_parts_and_both_languages_are_in_each() -> None:
    parts = [read_part(DATA, name) for name in PARTS]
    texts = [{each.text for each in part.sentences} for part in parts]
    assert not texts[2] & (texts[0] | texts[1])
    assert not texts[0] & texts[1]
    assert sum(map(len, texts)) >= 400
    for part in parts:
        chinese = sum(not each.text.isascii() for each in part.sentences)
        assert 0.4 <= chinese / len(part.sentences) <= 0.6
        assert 0.4 <= sum(each.care for each in part.sentences) / len(part.sentences) <= 0.6


def test_a_part_that_is_not_there_and_a_model_of_another_form_are_told(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no readable part"):
        read_part(tmp_path, "train")
    with pytest.raises(ConfigurationError, match="does not fit"):
        read_model({"form": 0})
