"""Fits the weights of the ranking.

``python -m research.fit_ranking FOLDER…`` fills a fresh store with each set of evaluation data, has
every question's candidates found as a search finds them, and fits the weights by which their parts
are added: a listwise logistic model (Cao et al. 2007, "Learning to rank: from pairwise approach to
listwise approach") whose weights keep the signs that they have. Prints `RANKING_BY_TOKENS`, with
recall at 5 and 10 as it was, fitted to all, and fitted without the sets of the same kind: the
conversation itself of LoCoMo, and both languages of MADial-Bench. ``--by-vectors`` fits `RANKING`,
as for an embedder without states of tokens.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from service.bench.retrieval.evaluation_store import OWNER, fill, opened
from service.bench.retrieval.retrieval_dataset import DataSet, Query, find_sets, read_set
from service.bench.retrieval.retrieval_metrics import DEEPEST, Place
from service.config import load_settings
from service.domain.anchors import AnchorRef
from service.memory.embedders import create_embedder
from service.memory.long_term import LongTermMemory
from service.memory.memory_tuning import RANKING, RANKING_BY_TOKENS, RankingWeights
from service.memory.protocol import SearchFilters
from service.memory.search.candidates import CandidateSource, SearchScope
from service.memory.search.query_terms import read_question
from service.memory.search.ranking import rank
from service.memory.search.scoring import Pool, Scorer
from service.memory.search.time.time_expressions import Timeliness
from service.memory.stores import ledger_of

Matrix = NDArray[np.float64]

_NEARBY = sorted(RANKING.meaning_nearby)
_PLAIN = ("meaning", "meaning_of_loop", "words", "words_of_loop", "question", "time")
_PARTS = (*_PLAIN, "meaning_answered", *(f"meaning_nearby {each}" for each in _NEARBY))
_STRENGTH = 0.002
"""Of the prior that standardised weights are 0, for a question."""


class Asked(NamedTuple):
    """A question, and the passages of its search."""

    set_name: str
    parts: Matrix
    """Shape (passages, parts): what each part adds where its weight is 1."""
    evidence: NDArray[np.int64]
    """Which item of the question's evidence each passage holds; -1 for none."""
    items: int
    """How much evidence there is, found or not."""
    spread: float
    """The standard deviation of what tells the meaning of its passages."""
    slope: float
    """Of standardised matches of tokens against standardised cosines; 0 without the former."""


def main(arguments: Sequence[str]) -> None:
    """Print the weights, and what they do."""
    by_vectors = "--by-vectors" in arguments
    folders = [Path(each) for each in arguments if not each.startswith("--")]
    sets = [read_set(folder) for each in folders for folder in find_sets(each, ())]
    asked = [each for data in sets for each in anyio.run(_asked, data, by_vectors)]
    now = _as_vector(RANKING if by_vectors else RANKING_BY_TOKENS)
    fitted = _fit(asked, now)
    names = [data.name for data in sets]
    report = {
        "usual_spread": round(float(np.median([each.spread for each in asked])), 3),
        "meaning_by_cosine": round(float(np.median([each.slope for each in asked])), 2),
        "weights": dict(zip(_PARTS, (fitted / fitted[0]).round(2).tolist(), strict=True)),
        "as it was": _recalls(names, asked, lambda name: now),
        "fitted to all": _recalls(names, asked, lambda name: fitted),
        "fitted without": _recalls(
            names, asked, lambda name: _fit([e for e in asked if not _akin(e.set_name, name)], now)
        ),
    }
    print(json.dumps(report, indent=1))


def _akin(one: str, other: str) -> bool:
    """Whether two sets are of one kind: conversations of LoCoMo are each of its own people."""
    kind = one.partition("-")[0]
    return one == other or (kind != "locomo" and other.startswith(kind))


async def _asked(data: DataSet, by_vectors: bool) -> list[Asked]:
    embedder = create_embedder(load_settings(), quick_start=False)
    with tempfile.TemporaryDirectory() as folder:
        await fill(Path(folder), data.run_loops_file, embedder)
        async with opened(Path(folder), embedder, now=data.latest) as memory:
            print(f"{data.name}: {len(data.queries)} questions", file=sys.stderr)
            return await anyio.to_thread.run_sync(
                lambda: [*_of_questions(memory, Path(folder), data, by_vectors=by_vectors)]
            )


def _of_questions(
    memory: LongTermMemory, folder: Path, data: DataSet, *, by_vectors: bool
) -> Iterator[Asked]:
    dense, ledger = memory.index.dense, ledger_of(folder)
    ledger.open()
    source, scorer = CandidateSource(ledger, dense, lambda owner: 0), Scorer(ledger, dense)
    for query in data.queries:
        question = read_question(query.query)
        timeliness = Timeliness(query.query, data.latest)
        times = timeliness.ranges if len(question.texts) == 1 else ()
        scope = SearchScope(OWNER, SearchFilters(), DEEPEST, times)
        candidates = source.gather(question, scope)
        if by_vectors:
            candidates = replace(candidates, tokens=None)
        pool = scorer.read(candidates, timeliness, scope)
        parts: dict[AnchorRef, dict[str, float]] = {}
        for name, weights in _each_alone(RANKING if by_vectors else RANKING_BY_TOKENS):
            for each in rank(question, pool.passages, candidates.of_words.corpus, weights=weights):
                own = parts.setdefault(each.ref, {})
                own |= each.scores if name is None else {name: each.scores.get("meaning_nearby", 0)}
        yield _of_question(data, query, pool, parts)
    source.close()
    ledger.close()


def _each_alone(weights: RankingWeights) -> Iterator[tuple[str | None, RankingWeights]]:
    """Weights of 1; those that are told as one part, by themselves."""
    silent = replace(
        weights,
        meaning=1.0,
        meaning_nearby=dict.fromkeys(_NEARBY, 0.0),
        meaning_answered=0.0,
        meaning_of_loop=1.0,
        words=1.0,
        words_of_loop=1.0,
        question=1.0,
        time=1.0,
    )
    yield None, silent
    yield "meaning_answered", replace(silent, meaning_answered=1.0)
    for each in _NEARBY:
        nearby = {**silent.meaning_nearby, each: 1.0}
        yield f"meaning_nearby {each}", replace(silent, meaning_nearby=nearby)


def _of_question(
    data: DataSet, query: Query, pool: Pool, parts: Mapping[AnchorRef, Mapping[str, float]]
) -> Asked:
    items = {place: number for number, place in enumerate(sorted(query.places))}
    rows = [row for row in pool.rows.values() if row.ref in parts]
    places = [Place(row.ref.run_loop_id, row.ref.iteration_index, row.segment_type) for row in rows]
    table = [[parts[row.ref].get(name, 0.0) for name in _PARTS] for row in rows]
    return Asked(
        data.name,
        np.array(table, dtype=np.float64).reshape(len(rows), len(_PARTS)),
        np.array([items.get(place, -1) for place in places], dtype=np.int64),
        len(items),
        float(np.std([*(pool.matches or pool.cosines).values()])),
        _slope(pool),
    )


def _slope(pool: Pool) -> float:
    both = [number for number in pool.matches if number in pool.cosines]
    if len(both) < len(_PARTS):
        return 0.0
    pairs = [[pool.matches[number] for number in both], [pool.cosines[number] for number in both]]
    return float(np.atleast_2d(np.corrcoef(pairs))[0, 1])


def _as_vector(weights: RankingWeights) -> Matrix:
    plain = [getattr(weights, name) for name in _PLAIN]
    nearby = [weights.meaning_nearby[each] for each in _NEARBY]
    return np.array([*plain, weights.meaning_answered, *nearby])


def _fit(asked: Sequence[Asked], begin: Matrix) -> Matrix:
    """Weights that make evidence likely to be drawn first; sets of a kind count the same."""
    useful = [each for each in asked if (each.evidence >= 0).any()]
    if not useful:
        return begin
    kinds = [each.set_name.partition("-")[0] for each in useful]
    counts = [1 / kinds.count(kind) for kind in kinds]
    spread = np.concatenate([each.parts for each in useful]).std(axis=0)
    spread[spread == 0] = 1.0
    tables = [each.parts / spread for each in useful]
    held = [each.evidence >= 0 for each in useful]

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        total, gradient = _STRENGTH * float(weights @ weights), 2 * _STRENGTH * weights
        for table, right, count in zip(tables, held, counts, strict=True):
            scores = table @ weights
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            found = shares[right].sum()
            total -= count * np.log(found + 1e-12)
            gradient += count * (shares - right * shares / (found + 1e-12)) @ table
        return total, gradient

    bounds = [(0, None) if each >= 0 else (None, 0) for each in begin]
    result = minimize(loss, begin * spread / 4, jac=True, bounds=bounds, method="L-BFGS-B")
    fitted: Matrix = result.x / spread
    return fitted


def _recalls(
    names: Sequence[str], asked: Sequence[Asked], weights: Callable[[str], Matrix]
) -> dict[str, list[float]]:
    return {
        name: _recall([each for each in asked if each.set_name == name], weights(name))
        for name in names
    }


def _recall(asked: Sequence[Asked], weights: Matrix) -> list[float]:
    """At 5 and 10, in percent."""
    shares = []
    for each in asked:
        order = np.argsort(-(each.parts @ weights), kind="stable")
        best = [{*each.evidence[order[:k]].tolist()} - {-1} for k in (5, 10)]
        shares.append([len(some) / each.items for some in best])
    return [round(float(share), 1) for share in 100 * np.mean(shares, axis=0)]


if __name__ == "__main__":
    main(sys.argv[1:])
