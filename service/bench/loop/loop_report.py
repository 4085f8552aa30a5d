"""The whole report: runs of Rondo and of its peers in turn, so that all share the same noise.

The model answers at once, so that what is measured is Rondo itself. The baseline is the same
number of commits of rows of the same size by bare SQLite, in the same runs. Figures are medians,
in milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from service import __version__
from service.bench.loop.bench_worker import WARM_UP_STEPS, CrowdRun, Run, SubjectRun
from service.bench.loop.worker_process import PEERS, PeerPython, PeerRuns, run_worker

Figures = dict[str, float | int]

_FEW = 10
_MANY = 20
DEFAULT_STEPS = (20, 200, 1000)


def of_runs(runs: Sequence[Run]) -> Figures:
    """The figures of loops of the same length; each is the median of what the runs showed.

    Returns:
        ``p50_ms``, ``p95_ms`` of a step; ``first_ms`` and ``last_ms``, the medians of the first
        and the last tenth of the steps; ``tenth_ms``, of the 5th to the 15th step; ``end_ms``, of
        the last 20 (of a short loop: 10); ``growth``, ``end_ms`` over ``tenth_ms``;
        ``disk_bytes`` at the end, and ``disk_bytes_per_step``; ``gc_ms`` and ``gc_max_ms``, what
        collecting garbage took in all and at most at once; ``repeats``, how many runs there were.
    """
    figures = _medians([_of_run(run) for run in runs])
    steps = len(runs[0]["starts"]) - 1
    return {
        **figures,
        "growth": round(figures["end_ms"] / figures["tenth_ms"], 3),
        "disk_bytes": round(figures["disk_bytes"]),
        "disk_bytes_per_step": round(figures["disk_bytes"] / steps),
        "repeats": len(runs),
    }


def of_subject(runs: Sequence[SubjectRun]) -> Figures:
    """As `of_runs`; with ``baseline_p50_ms``, of bare SQLite, and the ``ratio`` of p50 to it."""
    figures = of_runs(runs)
    baseline = statistics.median(run["baseline_ms"] for run in runs)
    return {
        **figures,
        "baseline_p50_ms": round(baseline, 4),
        "ratio": round(figures["p50_ms"] / baseline, 2),
    }


def of_crowds(runs: Sequence[CrowdRun]) -> Figures:
    """The figures of loops that ran at the same time; each is the median of what the runs showed.

    Returns:
        ``loops`` and ``steps`` of each; ``p50_ms``, ``p95_ms``, ``p99_ms`` and ``max_ms`` of all
        steps of all loops; ``max_over_median``; ``last_began_ms``, from the first message sent to
        the last loop's first call of the model; ``wall_ms``, to the last answer heard; ``gc_ms``,
        ``gc_max_ms`` and ``repeats`` as in `of_runs`.
    """
    figures = _medians([_of_crowd(run) for run in runs])
    first = runs[0]["starts"]
    return {"loops": len(first), "steps": len(first[0]) - 1, **figures, "repeats": len(runs)}


def _of_run(run: Run) -> Figures:
    steps = _steps(run["starts"])
    tenth = max(len(steps) // 10, 1)
    last = _MANY if len(steps) >= 2 * _MANY else _FEW
    return {
        "p50_ms": statistics.median(steps),
        "p95_ms": _percentile(steps, 95),
        "first_ms": statistics.median(steps[:tenth]),
        "last_ms": statistics.median(steps[-tenth:]),
        "tenth_ms": statistics.median(steps[4:15] or steps),
        "end_ms": statistics.median(steps[-last:]),
        "disk_bytes": run["disk_bytes"],
        "gc_ms": sum(run["gc_ms"]),
        "gc_max_ms": max(run["gc_ms"], default=0.0),
    }


def _of_crowd(run: CrowdRun) -> Figures:
    steps = [step for starts in run["starts"] for step in _steps(starts)]
    p50, slowest = statistics.median(steps), max(steps)
    return {
        "p50_ms": p50,
        "p95_ms": _percentile(steps, 95),
        "p99_ms": _percentile(steps, 99),
        "max_ms": slowest,
        "max_over_median": slowest / p50,
        "last_began_ms": (max(starts[0] for starts in run["starts"]) - run["sent"]) * 1000,
        "wall_ms": (run["ended"] - run["sent"]) * 1000,
        "gc_ms": sum(run["gc_ms"]),
        "gc_max_ms": max(run["gc_ms"], default=0.0),
    }


def _steps(starts: Sequence[float]) -> list[float]:
    return [(after - before) * 1000 for before, after in pairwise(starts)]


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _medians(each: Sequence[Mapping[str, float]]) -> Figures:
    return {key: round(statistics.median(one[key] for one in each), 4) for key in each[0]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    steps: Sequence[int] = DEFAULT_STEPS
    """Lengths of Rondo's loops."""
    repeats: int = 3
    peers: PeerPython | None = None
    """None: Rondo alone."""
    peer_steps: Sequence[int] = DEFAULT_STEPS
    concurrent: int = 0
    """How many loops run at the same time; 0: this is not measured."""
    concurrent_steps: int = 20


def run(plan: Plan, *, tell: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on and what is left out.

    Returns:
        ``{"steps": {"20": {…}, …}, …}``, see `of_subject`; with peers also ``"peers":
        {NAME: {"20": {…}, …}, …}``, see `of_runs`; with concurrent loops also
        ``"concurrent": {…}``, see `of_crowds`.

    Raises:
        BenchmarkError: a run failed.
    """
    report = _about(plan)
    subject: dict[str, Figures] = {}
    peers: dict[str, dict[str, Figures]] = {peer.name: {} for peer in PEERS}
    lengths = dict.fromkeys((*plan.steps, *(plan.peer_steps if plan.peers else ())))
    for length in lengths:
        ours, theirs = _in_turn(plan, length, tell)
        if ours:
            subject[str(length)] = of_subject(ours)
        for each in theirs:
            if each.runs:
                peers[each.peer.name][str(length)] = of_runs(each.runs)
    report["steps"] = subject
    if plan.peers is not None:
        report["peers"] = peers
    if plan.concurrent:
        report["concurrent"] = of_crowds(_crowds(plan, tell))
    return report


def _about(plan: Plan) -> dict[str, Any]:
    versions = {"rondo": __version__}
    work: list[object] = [plan.steps, plan.repeats, WARM_UP_STEPS]
    if plan.peers is not None:
        versions |= plan.peers.packages
        work += [plan.peer_steps, plan.peers.version]
    if plan.concurrent:
        work += [plan.concurrent, plan.concurrent_steps]
    about: dict[str, Any] = {
        "benchmark": "loop",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": versions,
        "input_sha256": hashlib.sha256(repr(work).encode()).hexdigest(),
    }
    if plan.peers is not None:
        about["peer_python"] = plan.peers.version
    return about


def _in_turn(
    plan: Plan, length: int, tell: Callable[[str], None]
) -> tuple[list[SubjectRun], list[PeerRuns]]:
    """Runs of one length: Rondo, each peer, Rondo again, and so on."""
    ours: list[SubjectRun] = []
    theirs: list[PeerRuns] = []
    if plan.peers is not None and length in plan.peer_steps:
        theirs = [PeerRuns(peer, plan.peers.path, length) for peer in PEERS]
    for repeat in range(plan.repeats):
        tell(f"{length} steps, run {repeat + 1} of {plan.repeats}")
        if length in plan.steps:
            ours.append(run_worker("service.bench.loop.loop_subject", length))
        for peer in theirs:
            peer.once_more()
    for peer in theirs:
        shortfall = peer.shortfall(plan.repeats)
        if shortfall is not None:
            tell(shortfall)
    return ours, theirs


def _crowds(plan: Plan, tell: Callable[[str], None]) -> list[CrowdRun]:
    runs = []
    for repeat in range(plan.repeats):
        tell(f"{plan.concurrent} loops at once, run {repeat + 1} of {plan.repeats}")
        runs.append(
            run_worker("service.bench.loop.loop_subject", plan.concurrent_steps, plan.concurrent)
        )
    return runs
