"""``python -m tests.soak.memory``: long-term memory, killed again and again, loses nothing.

Each run archives, imports or reindexes in a process of its own, which is killed with SIGKILL at a
random moment, and often once more while it makes up for that. Then a process finishes the work, and
another one looks into the files: everything must be there exactly once. One JSON document on
standard output; exit code 1 when anything was lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.soak import remembered
from tests.soak.remembered import KINDS, Kind

LOOPS = 40
_KILLED_AGAIN = 0.5
_FINISHED_WITHIN = 120.0

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["tests.soak.remembered", "chromadb"])


@dataclass(slots=True)
class Summary:
    """What the runs showed."""

    runs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    """How often each kind of work was killed in its midst."""
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For standard output."""
        return {
            "runs": self.runs,
            "kills": {"all": self.kills.total(), **self.kills},
            "problems": self.problems,
        }


def soak(
    folder: Path, *, runs: int, seed: int, loops: int = LOOPS, tell: Callable[[str], None]
) -> Summary:
    """Kill and finish.

    Args:
        folder: for the stores; those with problems stay there, the others are deleted.
        runs: how many; they archive, import and reindex in turn.
        seed: draws texts and moments.
        loops: run loops in each store.
        tell: told in words how it goes.
    """
    chance = random.Random(seed)
    summary = Summary()
    template = folder / "template"
    _warmed_up()  # the server of processes imports for seconds, which are nobody's work
    taken = {kind: _whole(kind, folder, template, seed, loops) for kind in KINDS}
    tell("unharmed: " + ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in taken.items()))
    for number in range(runs):
        kind = KINDS[number % len(KINDS)]
        home = folder / f"{number}-{kind}"
        if kind == "reindex":
            shutil.copytree(template, home)
        deaths = 1 + (chance.random() < _KILLED_AGAIN)
        for _ in range(deaths):
            moment = chance.uniform(0, taken[kind])
            summary.kills[kind] += _killed(kind, home, seed, loops, after=moment)
        problems = _finished(kind, home, seed, loops)
        summary.runs += 1
        summary.problems += [f"run {number}, {kind}: {each}" for each in problems]
        tell(f"run {number + 1} of {runs}: {kind}, {'; '.join(problems) or 'all is there'}")
        if not problems:
            shutil.rmtree(home)
    return summary


def _whole(kind: Kind, folder: Path, template: Path, seed: int, loops: int) -> float:
    """Seconds that the work takes when nobody disturbs it; the first store is the template."""
    home = folder / f"unharmed-{kind}"
    if kind == "reindex":
        shutil.copytree(template, home)
    begun = time.monotonic()
    problems = _finished(kind, home, seed, loops, look=False)
    taken = time.monotonic() - begun
    problems += _looked_at(kind, home, seed, loops)
    if problems:
        raise SystemExit(f"{kind}, even unharmed: {problems}")
    if kind == "archive":
        shutil.copytree(home, template)
    shutil.rmtree(home)
    return taken


def _warmed_up() -> None:
    process = _forkserver.Process(target=_nothing)
    process.start()
    process.join()


def _nothing() -> None:
    pass


def _killed(kind: Kind, home: Path, seed: int, loops: int, *, after: float) -> bool:
    """Begin the work and kill it after so many seconds; whether it was not done before that."""
    process = _forkserver.Process(target=remembered.act, args=(kind, home, seed, loops))
    process.start()
    process.join(after)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _finished(kind: Kind, home: Path, seed: int, loops: int, *, look: bool = True) -> list[str]:
    """Finish the work in a fresh process; what is wrong then."""
    process = _forkserver.Process(target=remembered.act, args=(kind, home, seed, loops))
    process.start()
    process.join(_FINISHED_WITHIN)
    if process.exitcode != 0:
        process.kill()
        process.join()
        return [f"it does not finish: exit code {process.exitcode}"]
    return _looked_at(kind, home, seed, loops) if look else []


def _looked_at(kind: Kind, home: Path, seed: int, loops: int) -> list[str]:
    ours, theirs = _forkserver.Pipe(duplex=False)
    process = _forkserver.Process(target=_look, args=(theirs, kind, home, seed, loops))
    process.start()
    theirs.close()
    try:
        damage: list[str] = ours.recv()
    except EOFError:
        damage = ["the files cannot be looked at"]
    process.join()
    return damage


def _look(answer: Connection, kind: Kind, home: Path, seed: int, loops: int) -> None:
    answer.send(remembered.problems(kind, home, seed, loops))


def main() -> None:
    """Soak as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--loops", type=int, default=LOOPS, help="Run loops in each store.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rondo-soak-"))
    begun = time.monotonic()
    summary = soak(
        folder,
        runs=given.runs,
        seed=given.seed,
        loops=given.loops,
        tell=lambda words: print(words, file=sys.stderr, flush=True),
    )
    report = {**summary.as_json(), "seed": given.seed, "seconds": round(time.monotonic() - begun)}
    print(json.dumps(report, indent=2))
    if summary.problems:
        raise SystemExit(f"The stores with problems are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
