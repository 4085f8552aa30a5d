"""A process that archives is killed, again and again: nothing is lost, nothing is there twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from tests.support.memory.killed_archiving import LOOPS, archive_all, check

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]


def killed(folder: Path, rng: random.Random) -> tuple[int, int] | None:
    """Archive in a process of its own, and kill it after some commit; the last one that it told."""
    program = [sys.executable, "-m", "tests.support.memory.killed_archiving", str(folder)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        assert process.stdout is not None
        reported = None
        for _ in range(rng.randrange(1, 3 * LOOPS)):
            line = process.stdout.readline()
            if not line:
                break
            reported = line
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()  # what it had told when it died
        reported = rest.splitlines()[-1] if rest.strip() else reported
    if reported is None:
        return None
    number, stage = reported.split()
    return int(number), int(stage)


def test_kill_9_while_archiving_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    for run in range(8):
        # Every other time the process takes up what the one before has left.
        folder = tmp_path / f"run{run // 2}"
        folder.mkdir(exist_ok=True)
        check(folder, killed(folder, rng))
    archive_all(folder)
    check(folder, (LOOPS - 1, 2))
    ledger = SqliteLedger(folder / "memory.sqlite3")
    ledger.open()
    assert len(ledger.finished(f"loop{number}" for number in range(LOOPS))) == LOOPS
    ledger.close()
