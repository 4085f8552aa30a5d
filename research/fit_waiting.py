"""Fits the weights by which the router tells what is said to a question that stands open.

``python -m research.fit_waiting FOLDER/dev.jsonl`` prints those that
`service.tuning` has, and how often they are right on scenes that they were not fitted to.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import numpy as np
from numpy.typing import NDArray

from service.bench.waiting.waiting_dataset import Part, read_parts
from service.bench.waiting.waiting_subject import subject, waiting
from service.config import load_settings
from service.memory.embedders import create_embedder
from service.memory.protocol import Vectors
from service.routing.candidate_loops import candidate_of, opens_of
from service.routing.features.answer_features import EXPECTING_FEATURES, expecting
from service.routing.open_loop_vectors import TurnVectors

_STRENGTH = 1.0
"""Of the prior that weights are 0."""
_FOLDS = 8
_WEIGHT_OF_BELONGING = 1.5
"""An answer that goes elsewhere is worse than a new topic taken for one, which is answered too."""

Matrix = NDArray[np.float64]


class _Rows(NamedTuple):
    """One for each reply, and another without the other open run loops, where there are any."""

    features: Matrix
    labels: Matrix
    """1: it is said to the loop that waits."""
    scenes: NDArray[np.int64]
    languages: list[str]
    words: list[str]


async def _rows(part: Part, *, with_vectors: bool) -> _Rows:
    embedder = create_embedder(load_settings(), quick_start=False) if with_vectors else None
    rows, labels, scenes, languages, words = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        async with subject(Path(folder), part.scenes, embedder) as agent:

            async def embed(texts: Sequence[str]) -> Vectors | None:
                if not with_vectors:
                    return None
                return await agent.memory.long_term.embed_queries(texts)

            vectors = TurnVectors(embed)
            for number, scene in enumerate(part.scenes):
                owner = f"scene {number}"
                loop_id = await waiting(agent, scene, owner)
                states = agent.memory.short_term.states(owner)
                bare = [candidate_of(state) for state in states]
                for case in (each for each in part.cases() if each.scene is scene):
                    vector, candidates = await vectors.of_message(case.words, bare)
                    at = next(n for n, each in enumerate(candidates) if each.id == loop_id)
                    others = [each for each in candidates if each.id != loop_id]
                    opens = opens_of(case.words, vector)
                    for beside in (others, []) if others else ([],):
                        rows.append(
                            expecting(case.words, vector, candidates[at], beside, opens=opens)
                        )
                        labels.append(float(case.belongs))
                        scenes.append(number)
                        languages.append(scene.language)
                        words.append(f"{case.label:8} {scene.id}: {case.words}")
    return _Rows(np.array(rows), np.array(labels), np.array(scenes), languages, words)


def importance(labels: Matrix, languages: Sequence[str]) -> Matrix:
    """What each row counts: the two labels of each language alike, however many it has of them."""
    counts = Counter(zip(languages, labels, strict=True))
    usual = len(labels) / len(counts)
    return np.array(
        [
            usual / counts[language, label] * (_WEIGHT_OF_BELONGING if label > 0 else 1.0)
            for language, label in zip(languages, labels, strict=True)
        ]
    )


def fitted(
    rows: Matrix, labels: Matrix, languages: Sequence[str], strength: float = _STRENGTH
) -> Matrix:
    """Weights, the last of them the constant: logistic regression by Newton's method."""
    table = np.column_stack([rows, np.ones(len(rows))])
    weights = np.zeros(table.shape[1])
    counted = importance(labels, languages)
    prior = np.full(table.shape[1], strength)
    prior[-1] = 0.01
    for _ in range(50):
        shares = 1 / (1 + np.exp(-table @ weights))
        gradient = table.T @ (counted * (labels - shares)) - prior * weights
        curvature = (table * (counted * shares * (1 - shares))[:, None]).T @ table
        step = np.linalg.solve(curvature + np.diag(prior), gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def main(path: Path) -> None:
    """Print weights with vectors and by words alone."""
    (part,) = read_parts(path)
    report: dict[str, object] = {"data": part.sha256}
    for name, with_vectors in (("with_vectors", True), ("words_only", False)):
        rows, labels, scenes, languages, words = anyio.run(
            partial(_rows, part, with_vectors=with_vectors)
        )
        spoken = np.array(languages)
        folds = scenes % _FOLDS
        held = np.zeros(len(labels))
        for fold in range(_FOLDS):
            own = folds != fold
            weights = fitted(rows[own], labels[own], spoken[own].tolist())
            held[~own] = rows[~own] @ weights[:-1] + weights[-1]
        for at in np.flatnonzero((held >= 0) != (labels > 0)):
            print(f"{name} {held[at]:+.2f} {words[at]}", file=sys.stderr)
        weights = fitted(rows, labels, languages)
        report[name] = {
            "weights": dict(
                zip((*EXPECTING_FEATURES, "constant"), weights.round(2).tolist(), strict=True)
            ),
            **{
                language: {
                    "elsewhere": float(np.mean(held[(spoken == language) & (labels > 0)] < 0)),
                    "taken": float(np.mean(held[(spoken == language) & (labels == 0)] >= 0)),
                }
                for language in sorted(set(languages))
            },
        }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
