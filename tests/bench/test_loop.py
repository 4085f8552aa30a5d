"""`rondo bench loop` in its smallest form: what it reports, not how fast it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.bench.loop.worker_process import PEERS, find_peers
from service.bench.parameters import BenchmarkError

pytestmark = pytest.mark.slow


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "bench", "loop", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def report_of(*arguments: str) -> dict[str, Any]:
    done = bench(*arguments)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_it_prints_json_with_the_figures_of_each_number_of_steps() -> None:
    report = report_of("--steps", "5", "--steps", "12", "--repeats", "2", "--json")
    assert list(report["steps"]) == ["5", "12"]
    for figures in report["steps"].values():
        assert {"p50_ms", "p95_ms", "disk_bytes", "baseline_p50_ms", "ratio"} <= set(figures)
        assert {"tenth_ms", "end_ms", "growth", "disk_bytes_per_step"} <= set(figures)
        assert figures["p50_ms"] > 0
        assert figures["disk_bytes"] > 0
        assert figures["repeats"] == 2
    assert "peers" not in report
    assert "concurrent" not in report


def test_loops_that_run_at_the_same_time_all_take_their_steps() -> None:
    report = report_of(
        "--steps", "2", "--repeats", "1", "--concurrent", "6", "--concurrent-steps", "4"
    )
    crowd = report["concurrent"]
    assert (crowd["loops"], crowd["steps"]) == (6, 4)
    assert 0 < crowd["p50_ms"] <= crowd["max_ms"] <= crowd["wall_ms"]
    assert crowd["max_over_median"] >= 1


def test_each_peer_is_measured_at_the_same_work_in_the_same_run() -> None:
    try:
        find_peers()
    except BenchmarkError as error:
        pytest.skip(error.advice)
    report = report_of("--peers", "--steps", "3", "--peer-steps", "2", "--repeats", "1")
    assert list(report["steps"]) == ["3"]
    assert list(report["peers"]) == [peer.name for peer in PEERS]
    for peer in PEERS:
        assert report["peers"][peer.name]["2"]["p50_ms"] > 0
        assert report["versions"][peer.name]
    assert report["peers"]["langgraph"]["2"]["disk_bytes"] > 0


@pytest.mark.parametrize(
    "python", ["nothing-here", sys.executable], ids=["no such file", "without them"]
)
def test_where_the_peers_are_missing_it_says_how_to_install_them(
    python: str, tmp_path: Path
) -> None:
    named = tmp_path / python  # an absolute path stays what it is
    try:
        find_peers(named)
    except BenchmarkError:
        done = bench("--peers", "--peer-python", str(named))
        assert done.returncode == 1
        assert "scripts/bench-peers.sh" in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    else:
        pytest.skip("this Python has them all")
