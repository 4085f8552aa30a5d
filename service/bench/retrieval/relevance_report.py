"""The whole report: how well relevance tells what is about a question, and what the threshold
does.
"""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from service import __version__
from service.bench.retrieval.question_stores import LOOKED_AT, Answer, KeptVectors, ask, stores_of
from service.bench.retrieval.retrieval_dataset import DataSet, find_sets, read_set
from service.bench.retrieval.retrieval_metrics import auroc
from service.memory.memory_tuning import RELATED_FROM
from service.memory.protocol import Embedder

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    data: Sequence[Path]
    """Folders of sets."""
    sets: Sequence[str] = ()
    """Names or patterns; none: all."""
    most: int = 60
    """Questions of a set that are asked of one store."""
    seed: int = 0
    make_embedder: Callable[[], Embedder | None]
    """None is given for words alone."""


def run(plan: Plan, *, tell: Callable[[str], None] = lambda words: None) -> Figures:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on.

    Returns:
        ``{"overall": FIGURES, "groups": {GROUP: FIGURES}, "stores": {STORE: SEGMENTS}, …}``; for
        FIGURES see `of_answers`.

    Raises:
        BenchmarkError: the data cannot be used.
        RondoError: a search failed.
    """
    sets = read_sets(plan)
    answers, embedder = anyio.run(answers_of, plan, sets, tell)
    groups = defaultdict[str, list[Answer]](list)
    for each in (answer for some in answers.values() for answer in some):
        groups[f"{each.asked.kind}: {each.asked.of}"].append(each)
    return {
        "benchmark": "relevance",
        "python": platform.python_version(),
        "version": __version__,
        "embedder": embedder,
        "seed": plan.seed,
        "threshold": RELATED_FROM,
        "looked_at": LOOKED_AT,
        "inputs": {each.name: each.sha256 for each in sets},
        "stores": {name: some[0].segments for name, some in answers.items() if some},
        "overall": of_answers([answer for some in answers.values() for answer in some]),
        "groups": {name: of_answers(groups[name]) for name in sorted(groups)},
    }


def read_sets(plan: Plan) -> list[DataSet]:
    """All sets of a plan.

    Raises:
        BenchmarkError: the data cannot be used.
    """
    return [
        read_set(folder, evidence=False)
        for data in plan.data
        for folder in find_sets(data, plan.sets)
    ]


async def answers_of(
    plan: Plan, sets: Sequence[DataSet], tell: Callable[[str], None]
) -> tuple[dict[str, list[Answer]], str | None]:
    """Every store's answers by its name, and the identity of the embedder."""
    inner = plan.make_embedder()
    embedder = KeptVectors(inner) if inner is not None else None
    now = max(each.latest for each in sets)
    answers = defaultdict[str, list[Answer]](list)
    for store in stores_of(sets, most=plan.most, seed=plan.seed):
        tell(f"{store.name}: {len(store.run_loops)} run loops, {len(store.asked)} questions")
        answers[store.name] += await ask(store, embedder, now=now)
    return answers, embedder.identity if embedder else None


def of_answers(answers: Sequence[Answer]) -> Figures:
    """The figures of some answers.

    Returns:
        ``said``: of the questions that something answers and whose answer was among the hits, how
        many there are, how many of these keep any hit as related, and how many the answer itself;
        ``near`` and ``far``: of the others, how many there are and keep any hit; ``auroc``: how
        often the best hit of one that is answered is more relevant than that of one that is far,
        and ``auroc_with_near`` than that of any other. None where there is nothing to compare.
    """
    said = [each for each in answers if each.asked.kind == "said" and each.evidence]
    near = [each for each in answers if each.asked.kind == "near"]
    far = [each for each in answers if each.asked.kind == "far"]
    return {
        "said": {
            "questions": len(said),
            "kept": _share(each.related for each in said),
            "answer_kept": _share(any(hit.related for hit in each.evidence) for each in said),
        },
        "near": {"questions": len(near), "kept": _share(each.related for each in near)},
        "far": {"questions": len(far), "kept": _share(each.related for each in far)},
        "auroc": _auroc(said, far),
        "auroc_with_near": _auroc(said, [*near, *far]),
    }


def _auroc(higher: Iterable[Answer], lower: Iterable[Answer]) -> float | None:
    return auroc([each.relevance for each in higher], [each.relevance for each in lower])


def _share(each: Iterable[bool]) -> float | None:
    every = list(each)
    return round(sum(every) / len(every), 4) if every else None
