"""`rondo bench loop` in its smallest form: what it reports, not how fast it is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def test_it_prints_json_with_the_figures_of_each_number_of_steps() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "bench", "loop", "--steps", "5", "--steps", "12"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    report = json.loads(done.stdout)
    assert list(report["steps"]) == ["5", "12"]
    for figures in report["steps"].values():
        assert {"p50_ms", "p95_ms", "disk_bytes", "floor_p50_ms", "ratio"} <= set(figures)
        assert figures["p50_ms"] > 0
        assert figures["disk_bytes"] > 0
