"""The whole report: runs of Rondo and of its peers in turn, so that all share the same noise.

The model answers at once, so that what is measured is Rondo itself. The baseline is the same
number of commits of rows of the same size by bare SQLite, in the same runs.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from service import __version__
from service.bench.loop import loop_figures
from service.bench.loop.bench_worker import WARM_UP_STEPS, CrowdRun, SubjectRun
from service.bench.loop.peer_python import PEERS, PeerPython
from service.bench.loop.peer_runs import PeerRuns
from service.bench.loop.worker_process import run_worker

DEFAULT_STEPS = (20, 200, 1000)


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
        ``{"steps": {"20": {…}, …}, …}``, see `loop_figures.of_subject`; with peers also ``"peers":
        {NAME: {"20": {…}, …}, …}``, see `loop_figures.of_runs`; with concurrent loops also
        ``"concurrent": {…}``, see `loop_figures.of_crowds`.

    Raises:
        BenchmarkError: a run failed.
    """
    report = _about(plan)
    subject: dict[str, loop_figures.Figures] = {}
    peers: dict[str, dict[str, loop_figures.Figures]] = {peer.name: {} for peer in PEERS}
    lengths = dict.fromkeys((*plan.steps, *(plan.peer_steps if plan.peers else ())))
    for length in lengths:
        ours, theirs = _in_turn(plan, length, tell)
        if ours:
            subject[str(length)] = loop_figures.of_subject(ours)
        for each in theirs:
            if each.runs:
                peers[each.peer.name][str(length)] = loop_figures.of_runs(each.runs)
    report["steps"] = subject
    if plan.peers is not None:
        report["peers"] = peers
    if plan.concurrent:
        report["concurrent"] = loop_figures.of_crowds(_crowds(plan, tell))
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
            run_worker(
                "service.bench.loop.concurrent_loops", plan.concurrent_steps, plan.concurrent
            )
        )
    return runs
