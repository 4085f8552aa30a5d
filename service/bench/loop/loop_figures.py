"""From what runs told to the figures of a report: medians, in milliseconds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from service.bench.loop.bench_worker import CrowdRun, Run, SubjectRun

Figures = dict[str, float | int]

_FEW = 10
_MANY = 20


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
