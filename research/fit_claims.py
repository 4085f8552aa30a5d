"""Fits the model that tells whether an answer claims a deed, and measures it.

``python -m research.fit_claims data/claims service/loop/claims/claim_model.json`` writes the model;
without the second argument nothing is fitted. Measures what comes with the package, patterns and
model together: run it again after a fit. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from service.loop.claims.claim_model import (
    FORM,
    Language,
    LinearModel,
    features,
)
from service.loop.claims.unsupported_claims import claimed_deeds

PARTS = ("train", "test")
LANGUAGES: tuple[Language, ...] = ("en", "zh")
_PRIOR = 1.0
"""How lightly the prior weighs; 0.3 and 3 tell no more of the folds."""
_DIGITS = 3
_SEEN_LEAST = 2
"""In how many sentences a feature must occur."""


class Answer(NamedTuple):
    """A labelled answer."""

    text: str
    language: Language
    claims: bool


def read_part(path: Path) -> list[Answer]:
    """Answers of a file of ``{"text", "language", "claims"}``, one a line."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [Answer(row["text"], row["language"], row["claims"]) for row in rows]


def fitted(answers: Sequence[Answer], language: Language) -> LinearModel:
    """The model of a language."""
    own = [each for each in answers if each.language == language]
    labels = np.array([each.claims for each in own])
    held = [set(features(each.text, language)) for each in own]
    counts: dict[str, int] = {}
    for each in held:
        for feature in each:
            counts[feature] = counts.get(feature, 0) + 1
    names = sorted(feature for feature, count in counts.items() if count >= _SEEN_LEAST)
    column = {name: place for place, name in enumerate(names)}
    pairs = [
        (row, column[f]) for row, each in enumerate(held) for f in sorted(each & column.keys())
    ]
    rows, columns = np.array(pairs).T
    table = csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(own), len(names)))

    regression = LogisticRegression(
        C=_PRIOR, penalty="l1", solver="liblinear", max_iter=5000, random_state=0
    )
    regression.fit(table, labels)
    weights = {
        name: round(float(weight), _DIGITS)
        for name, weight in zip(names, regression.coef_[0], strict=True)
        if round(float(weight), _DIGITS)
    }
    return LinearModel(weights, round(float(regression.intercept_[0]), _DIGITS))


def figures(answers: Sequence[Answer]) -> dict[str, Any]:
    """Precision and recall over whole answers, by language, and what is told wrongly."""
    by_language: dict[str, Any] = {}
    for language in LANGUAGES:
        own = [each for each in answers if each.language == language]
        claimed = [bool(claimed_deeds(each.text)) for each in own]
        right = sum(c and each.claims for c, each in zip(claimed, own, strict=True))
        by_language[language] = {
            "answers": len(own),
            "precision": round(right / max(1, sum(claimed)), 3),
            "recall": round(right / max(1, sum(each.claims for each in own)), 3),
            "wrongly claimed": [
                each.text for c, each in zip(claimed, own, strict=True) if c and not each.claims
            ],
        }
    return by_language


def main(folder: Path, written: Path | None) -> None:
    """Fit where a file to write is named; measure."""
    parts = {name: read_part(folder / f"{name}.jsonl") for name in PARTS}
    if written is not None:
        models = {language: fitted(parts["train"], language) for language in LANGUAGES}
        model: dict[str, Any] = {
            "form": FORM,
            "trained_on": sha256((folder / "train.jsonl").read_bytes()).hexdigest(),
        }
        for language, each in models.items():
            model[language] = {"bias": each.bias, "weights": dict(each.weights)}
        written.write_text(json.dumps(model, ensure_ascii=False, indent=0) + "\n", "utf-8")
    report = {name: figures(answers) for name, answers in parts.items()}
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
