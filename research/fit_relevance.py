"""Fits the weights of relevance.

``python -m research.fit_relevance FOLDER…`` prints those that `service.memory.memory_tuning` has:
by tokens, by vectors and by words alone. Folders of streams, as the router is trained on, are
stores that know nothing of what is asked. Sets whose name ends in ``-test``, and those named after
``--held``, are asked like the others and only measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
import numpy as np
from numpy.typing import NDArray

from service.bench.retrieval.question_stores import Answer
from service.bench.retrieval.relevance_report import Plan, answers_of, read_sets
from service.bench.retrieval.retrieval_dataset import DataSet, is_set
from service.bench.routing import routing_dataset
from service.config import load_settings
from service.domain.anchors import MemoryHit
from service.domain.run_loops import Iteration, RunLoop
from service.memory.embedders import create_embedder
from service.memory.ledger.terms import terms
from service.memory.protocol import Embedder, Vectors
from service.memory.search.query_terms import read_question
from service.memory.search.relevance import Evidence, RelevanceHit, weigh
from service.memory.vectors.unrelated_cosines import OF_THE_BUNDLED, Unrelated

_NEAR_COUNTS = 0.3
"""What is of the same topic, and no answer, is no plain example of what has nothing to do with
it."""
_STRENGTH = 1.0
"""Of the prior that the weights of standardised evidence are 0."""
_KEPT = 0.97
"""Share of the answered questions that are to stay above the floor."""

_SIGNS = np.array([-1 if name in ("asked", "segments") else 1 for name in Evidence._fields])
"""Much that is asked for, or remembered, makes chance likelier; all else speaks for an answer."""

Matrix = NDArray[np.float64]


class _ByVectors:
    """An embedder that keeps the states of its tokens to itself."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def identity(self) -> str:
        return self._embedder.identity

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_queries(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_passages(texts)


def _embedder() -> Embedder | None:
    return create_embedder(load_settings(), quick_start=False)


def _by_vectors() -> Embedder | None:
    embedder = _embedder()
    return embedder and _ByVectors(embedder)


_EMBEDDERS: Mapping[str, Callable[[], Embedder | None]] = {
    "RELEVANCE_BY_TOKENS": _embedder,
    "RELEVANCE": _by_vectors,
    "RELEVANCE_BY_WORDS": lambda: None,
}


def main(arguments: Sequence[str]) -> None:
    """Print weights with vectors and by words alone, and what they do."""
    cut = arguments.index("--held") if "--held" in arguments else len(arguments)
    held_names = tuple(arguments[cut + 1 :])
    report: dict[str, object] = {}
    for name, make_embedder in _EMBEDDERS.items():
        folders = [Path(each) for each in arguments[:cut]]
        streams = [each for each in folders if not is_set(each) and routing_dataset.files(each)]
        plan = Plan(
            data=[each for each in folders if each not in streams], make_embedder=make_embedder
        )
        sets = [*read_sets(plan), *map(_knowing_nothing, streams)]
        by_set, _ = anyio.run(answers_of, plan, sets, _tell)
        answers = [a for some in by_set.values() for a in some if a.hits]
        answers = [a for a in answers if a.asked.kind != "said" or _is_shown(a)]
        unrelated = None if name == "RELEVANCE_BY_WORDS" else OF_THE_BUNDLED
        rows = np.array([_row(each, unrelated) for each in answers])
        held = np.array([_is_held(each, held_names) for each in answers])
        report[name] = _fitted(answers, rows, held)
    print(json.dumps(report, indent=1))


def _knowing_nothing(folder: Path) -> DataSet:
    """The conversations of streams, of which nothing is asked."""
    loops: dict[str, list[Iteration]] = {}
    for stream in routing_dataset.read_set(folder).streams:
        for said in stream.said:
            turns = loops.setdefault(f"{stream.name} {said.thread}", [])
            if said.role == "user" or not turns:
                turns.append(Iteration(timestamp=said.at))
            field = "user_message" if said.role == "user" else "response"
            before = getattr(turns[-1], field)
            words = f"{before}\n{said.text}" if before else said.text
            turns[-1] = turns[-1].model_copy(update={field: words})
    run_loops = [
        RunLoop(
            id=name,
            goal=turns[0].user_message or "",
            status="completed",
            iterations=tuple(turns),
            created_at=turns[0].timestamp,
            completed_at=turns[-1].timestamp,
        )
        for name, turns in loops.items()
    ]
    return DataSet(folder.name, folder, run_loops, (), (), {}, ())


def _is_shown(answer: Answer) -> bool:
    """Whether the answer is among the hits, and not for its moment alone."""
    scores = [hit.scores or {} for hit in answer.hits]
    return bool(answer.evidence) and any("cosine" in each or "held" in each for each in scores)


def _row(answer: Answer, unrelated: Unrelated | None) -> list[float]:
    question = read_question(answer.asked.query.query)
    evidence = weigh(question, list(map(_found, answer.hits)), answer.segments, unrelated)
    return [each or 0.0 for each in evidence]


def _found(hit: MemoryHit) -> RelevanceHit:
    scores = hit.scores or {}
    return RelevanceHit(
        content=hit.content,
        terms=sum(1 for _ in terms(hit.content)),
        cosine=scores.get("cosine"),
        words=scores.get("held", 0.0),
        rarity=scores.get("rarity", 0.0),
        match=scores.get("match"),
    )


def _is_held(answer: Answer, names: Sequence[str]) -> bool:
    return any(each in answer.asked.of for each in ("-test", *names))


def _fitted(answers: Sequence[Answer], rows: Matrix, held: NDArray[np.bool_]) -> object:
    said = np.array([each.asked.kind == "said" for each in answers])
    near = np.array([each.asked.kind == "near" for each in answers])
    counts = np.where(near, _NEAR_COUNTS, 1.0)
    for label in (said, ~said):  # both sides weigh the same
        counts[label] *= len(answers) / 2 / counts[label & ~held].sum()
    mean, spread = rows[~held].mean(axis=0), rows[~held].std(axis=0)
    spread[spread == 0] = 1.0
    table = np.column_stack([(rows - mean) / spread, np.ones(len(rows))])
    standard = _signed(table[~held], said[~held].astype(float), counts[~held])
    logits = table @ standard
    weights = standard[:-1] / spread
    constant = standard[-1] - float(weights @ mean)
    floor = float(np.quantile(logits[said & ~held], 1 - _KEPT))

    def shares(part: NDArray[np.bool_]) -> dict[str, float]:
        kinds = {"said": said, "near": near, "far": ~said & ~near}
        return {
            kind: round(float((logits[part & is_kind] >= floor).mean()), 3)
            for kind, is_kind in kinds.items()
        }

    return {
        "weights": dict(zip(Evidence._fields, weights.round(3).tolist(), strict=True)),
        "constant": round(constant, 3),
        "floor": round(1 / (1 + float(np.exp(-floor))), 3),
        "kept, fitted": shares(~held),
        "kept, held": shares(held),
        "questions": {"fitted": int((~held).sum()), "held": int(held.sum())},
    }


def _signed(table: Matrix, labels: Matrix, counts: Matrix) -> Matrix:
    """Weights of the sign that each piece of evidence has; 0 for one that would have the other:
    what says the same as another may not speak against it."""
    columns = np.arange(table.shape[1])
    while True:
        weights = np.zeros(table.shape[1])
        weights[columns] = _logistic(table[:, columns], labels, counts)
        wrong = weights[:-1] * _SIGNS < 0
        if not wrong.any():
            return weights
        worst = int(np.argmin(weights[:-1] * _SIGNS))
        columns = columns[columns != worst]


def _logistic(table: Matrix, labels: Matrix, counts: Matrix) -> Matrix:
    """Weights by Newton's method; the last of them, the constant, has no prior to speak of."""
    weights = np.zeros(table.shape[1])
    prior = np.full(table.shape[1], _STRENGTH)
    prior[-1] = 0.01
    for _ in range(50):
        shares = 1 / (1 + np.exp(-table @ weights))
        gradient = table.T @ (counts * (labels - shares)) - prior * weights
        curvature = (table * (counts * shares * (1 - shares))[:, None]).T @ table
        step = np.linalg.solve(curvature + np.diag(prior), gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _tell(words: str) -> None:
    print(words, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
