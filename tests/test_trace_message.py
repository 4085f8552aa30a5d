"""The script that counts how many modules a message runs through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_it_names_the_modules_of_both_cases() -> None:
    report = subprocess.run(
        [sys.executable, "scripts/trace_message.py", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    none, two = re.findall(r"run loops open: (\d+) modules", report)
    assert 20 < int(none) < int(two)
    for module in (
        "agent.reception",
        "routing.router",
        "memory.journal.sqlite.sqlite_journal",
        "domain.history.fold",
    ):
        assert report.count(f"    service.{module} (") == 2, "with no loop open, and with two"
