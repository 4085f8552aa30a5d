"""Asking every query of a set through the public search."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from service.bench.parameters import Arm, BenchmarkError
from service.bench.retrieval.retrieval_dataset import Query
from service.bench.retrieval.retrieval_metrics import DEEPEST, Place
from service.memory.long_term import LongTermMemory

_WARM_UP = "Where is the nearest lighthouse?"


class Answer(NamedTuple):
    """What one query found, and how long that took."""

    query: Query
    hits: tuple[Place, ...]
    """Best first."""
    ms: float


async def ask_all(
    memory: LongTermMemory, queries: Sequence[Query], arm: Arm, *, owner: str, seed: int
) -> list[Answer]:
    """Ask each query once, one after the other, in an order drawn by `seed`.

    A question of no set comes first and is not counted: it opens what opens at the first search.

    Raises:
        BenchmarkError: the search had to do without vectors, and says why.
    """
    order = random.Random(seed).sample(list(queries), len(queries))
    await _search(memory, _WARM_UP, arm, owner)
    answers = []
    for query in order:
        begun = time.perf_counter()
        hits = await _search(memory, query.query, arm, owner)
        answers.append(Answer(query, hits, (time.perf_counter() - begun) * 1000))
    return answers


async def _search(memory: LongTermMemory, text: str, arm: Arm, owner: str) -> tuple[Place, ...]:
    result = await memory.search(text, owner=owner, limit=DEEPEST, words=arm != "dense")
    if arm != "lexical" and result.mode == "lexical":
        raise BenchmarkError(f"{arm} was to search, but words alone did: {result.notice}")
    return tuple(Place.of(hit.anchor) for hit in result.hits)
