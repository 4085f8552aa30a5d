"""Fits the two models that tell a person's limits and where they matter, and measures them.

``python -m research.care.fit_limits data/care service/loop/recall/care/limit_model.json`` fits both
and writes them; with ``limits`` behind it, the first alone: the second stays as it comes with the
package. With the folder alone it measures what comes with the package. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.care.limit_dataset import How, Pair, Part, Sentence, read_part
from service.config import load_settings
from service.domain.text import script_of
from service.loop.recall import care
from service.loop.recall.care.limit_model import FORM, CareModel, pair_table, read_model, shipped
from service.memory.embedders import create_embedder
from service.memory.embedders.query_cache import QueryCache
from service.routing.features.embedding_features import rounded

Matrix = NDArray[np.float64]
Known = Mapping[str, Matrix]
"""Vectors by their texts."""

PARTS = ("train", "dev", "test")
AXES = 64
PAIRED = 24
_FOLDS = 8
_LIMIT_PRIOR = 0.04
"""Of the prior that weights are 0; chosen on ``dev``, as all numbers here."""
_IMPORTANCE_PRIOR = 10.0
_SCALES = {"near": 3.0, "asks": 1.5, "along": 4.0, "pairs": 5.0}
"""How lightly the prior weighs on each part of the second model."""
_WEIGHT_OF_IMPORTANT = 8.0
"""A limit that is missed is worse than one that is told needlessly."""
_LIMITS_FOUND = 0.95
_IMPORTANT_FOUND = 0.95
"""The thresholds are where so many are found that were not fitted to."""
_DIGITS = 4
_OF_FIRST_OR_BOTH = ("form", "data", "embedder", "limit", "limit_bias", "limits_from")


def regression(table: Matrix, labels: Matrix, importance: Matrix, prior: Matrix) -> Matrix:
    """Weights, the last of them the constant: logistic regression by Newton's method."""
    table = np.column_stack([table, np.ones(len(table))])
    prior = np.append(prior, 0.01)
    weights = np.zeros(table.shape[1])
    for _ in range(50):
        shares = 1 / (1 + np.exp(-np.clip(table @ weights, -60, 60)))
        gradient = table.T @ (importance * (labels - shares)) - prior * weights
        curvature = (table * (importance * shares * (1 - shares))[:, None]).T @ table
        step = np.linalg.solve(curvature + np.diag(prior), gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-7:
            break
    return weights


def _held_out(groups: Sequence[int], fitted: Callable[[Matrix], Matrix], table: Matrix) -> Matrix:
    """Logits of each row by weights that were fitted to the other folds."""
    folds = np.array(groups) % _FOLDS
    held = np.zeros(len(table))
    for fold in range(_FOLDS):
        weights = fitted(folds != fold)
        held[folds == fold] = table[folds == fold] @ weights[:-1] + weights[-1]
    return held


def _fit_limits(sentences: Sequence[Sentence], asked: Known, kept: Known) -> dict[str, Any]:
    """The first model, by vectors of questions and of passages alike: memory keeps the latter."""
    texts = [each.text for each in sentences]
    table = np.array([vectors[text] for vectors in (asked, kept) for text in texts])
    labels = np.array([float(each.care) for each in sentences] * 2)
    prior = np.full(table.shape[1], _LIMIT_PRIOR)

    def fitted(rows: Matrix) -> Matrix:
        return regression(table[rows], labels[rows], np.ones(int(rows.sum())), prior)

    held = _held_out(list(range(len(texts))) * 2, fitted, table)
    weights = fitted(np.ones(len(table), dtype=bool))
    return {
        "limit": _written(weights[:-1]),
        "limit_bias": round(float(weights[-1]), _DIGITS),
        "limits_from": round(float(np.quantile(held[labels > 0], 1 - _LIMITS_FOUND)), 2),
    }


def _fit_importance(part: Part, vectors: Known) -> dict[str, Any]:
    limits = sorted({pair.said for pair in part.pairs})
    limits += [each.text for each in part.sentences if each.care]
    asked = sorted({pair.asked for pair in part.pairs})
    centres = {"said": _centres(limits, vectors), "asked": _centres(asked, vectors)}

    def directions(texts: Sequence[str], side: str) -> Matrix:
        of_script = (centres[side][script_of(text)] for text in texts)
        away = np.array([vectors[text] for text in texts]) - np.array(list(of_script))
        return np.asarray(away / np.linalg.norm(away, axis=1, keepdims=True))

    both = np.concatenate([directions(limits, "said"), directions(asked, "asked")])
    axes = np.linalg.svd(both, full_matrices=False)[2][:AXES]
    pairs = part.pairs
    table = pair_table(
        directions([pair.said for pair in pairs], "said").astype(np.float32),
        directions([pair.asked for pair in pairs], "asked").astype(np.float32),
        axes.astype(np.float32),
        PAIRED,
    ).astype(np.float64)
    labels = np.array([float(pair.matters) for pair in pairs])
    importance = np.where(labels > 0, _WEIGHT_OF_IMPORTANT, 1.0)
    counts = {"near": 1, "asks": AXES, "along": AXES, "pairs": PAIRED**2}
    scale = np.concatenate([np.full(counts[name], each) for name, each in _SCALES.items()])
    prior = _IMPORTANCE_PRIOR / scale**2

    def fitted(rows: Matrix) -> Matrix:
        return regression(table[rows], labels[rows], importance[rows], prior)

    names = sorted({pair.topic for pair in pairs})
    held = _held_out([names.index(pair.topic) for pair in pairs], fitted, table)
    own = held[np.array([pair.how == "own" for pair in pairs])]
    weights = fitted(np.ones(len(table), dtype=bool))
    ends = np.cumsum(list(counts.values()))
    near, asks, along, paired = np.split(weights[:-1], ends[:-1])
    return {
        **{
            side: {script: _written(mean) for script, mean in means.items()}
            for side, means in centres.items()
        },
        "axes": _written(axes),
        "near": round(float(near[0]), _DIGITS),
        "asks": _written(asks),
        "along": _written(along),
        "pairs": _written(paired.reshape(PAIRED, PAIRED)),
        "bias": round(float(weights[-1]), _DIGITS),
        "matters_from": round(float(np.quantile(own, 1 - _IMPORTANT_FOUND)), 2),
    }


def _written(values: Matrix) -> list[Any]:
    return rounded(values.astype(np.float32), _DIGITS)


def _centres(texts: Sequence[str], vectors: Known) -> dict[str, Matrix]:
    return {
        "han": np.mean([vectors[text] for text in texts if script_of(text) == "han"], axis=0),
        "other": np.mean([vectors[text] for text in texts if script_of(text) == "other"], axis=0),
    }


# --- figures


def figures(model: CareModel, part: Part, vectors_by_text: Known) -> dict[str, Any]:
    """How often both models are right on a part.

    Returns:
        Of sentences: precision and recall. Of pairs: the share that is told, by how they belong
        together.
    """
    vectors = np.array([vectors_by_text[each.text] for each in part.sentences], dtype=np.float32)
    predicted = model.limit_logits(vectors) >= model.limits_from
    care = np.array([each.care for each in part.sentences])
    related = _told(model, part.pairs, vectors_by_text)
    hows: tuple[How, ...] = ("own", "field", "elsewhere", "none")
    return {
        "sentences": len(care),
        "limits": int(care.sum()),
        "precision": round(float(care[predicted].mean()), 3),
        "recall": round(float(predicted[care].mean()), 3),
        "wrong": [
            each.text
            for each, is_predicted in zip(part.sentences, predicted, strict=True)
            if each.care != is_predicted
        ],
        "told": {
            how: [round(float(np.mean(of_how)), 3), len(of_how)]
            for how in hows
            if (
                of_how := [
                    each for each, pair in zip(related, part.pairs, strict=True) if pair.how == how
                ]
            )
        },
        "missed": sorted(
            {
                f"{pair.said} | {pair.asked}"
                for each, pair in zip(related, part.pairs, strict=True)
                if pair.how == "own" and not each
            }
        ),
    }


def _told(model: CareModel, pairs: Sequence[Pair], vectors: Known) -> list[bool]:
    verdicts = []
    for pair in pairs:
        said = vectors[pair.said].astype(np.float32)[None]
        asked = vectors[pair.asked].astype(np.float32)
        logits = model.importance_logits([pair.said], said, pair.asked, asked)
        verdicts.append(bool(logits[0] >= model.matters_from))
    return verdicts


def _shipped_importance() -> dict[str, Any]:
    """The second model as it comes with the package, as `_fit_importance` would write it."""
    written: dict[str, Any] = json.loads(
        resources.files(care).joinpath("limit_model.json").read_text()
    )
    return {name: each for name, each in written.items() if name not in _OF_FIRST_OR_BOTH}


def main(folder: Path, written: Path | None, *, limits_only: bool) -> None:
    """Fit where a file to write is named; measure."""
    embedder = create_embedder(load_settings(), quick_start=False)
    if embedder is None:
        sys.exit("Search by meaning is off: set memory.embedder to bundled.")
    embedder = QueryCache(embedder)
    parts = {name: read_part(folder, name) for name in PARTS}
    texts = sorted({text for part in parts.values() for text in part.texts()})
    vectors = dict(zip(texts, embedder.embed_queries(texts).astype(np.float64), strict=True))
    if written is not None:
        train = parts["train"]
        sentences = [each.text for each in train.sentences]
        passages = embedder.embed_passages(sentences).astype(np.float64)
        kept = dict(zip(sentences, passages, strict=True))
        data = b"".join(path.read_bytes() for path in sorted(folder.glob("*train.jsonl")))
        model = {
            "form": FORM,
            "data": sha256(data).hexdigest(),
            "embedder": embedder.identity.split(" ")[1],
            **_fit_limits(train.sentences, vectors, kept),
            **(_shipped_importance() if limits_only else _fit_importance(train, vectors)),
        }
        written.write_text(json.dumps(model) + "\n", "utf-8")
        fitted = read_model(model)
    else:
        fitted = shipped()
    report = {name: figures(fitted, part, vectors) for name, part in parts.items()}
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
        limits_only=sys.argv[3:] == ["limits"],
    )
