"""The check of `rondo doctor` that tells how far those who live off the journal are behind it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.stream_items import read_as
from service.cli.doctor.findings import Finding
from service.config import Settings
from service.wire.memory_bodies import Stats

_LONG_TERM = "long-term memory"
_AT_WORK = "running"


class _Lag(NamedTuple):
    """How far long-term memory is behind, by the files."""

    changes: int
    """Those that it has not read."""
    since: float | None
    """When the oldest of them was made, in seconds since the epoch."""
    waiting: int
    """Run loops that are listed and could be archived."""
    problem: str | None
    """Why one of them was not."""


def check_readers(settings: Settings) -> Finding:
    """Whether all that was journaled is archived, and nobody in the daemon is stuck."""
    journal, ledger = (settings.data_dir / name for name in ("journal.sqlite3", "memory.sqlite3"))
    if not (journal.exists() and ledger.exists()):
        return Finding("ok", "nothing was journaled yet")
    try:
        lag = _lag(journal, ledger)
    except sqlite3.Error as error:
        advice = "The next start of the daemon brings the files up to date."
        return Finding("note", f"how far memory is behind cannot be read: {error}", advice)
    words = [_in_words(lag)]
    behind = {name: count for name, count in _in_daemon(settings).items() if count}
    behind.pop(_LONG_TERM, None)  # by the files, which also tell what a stopped daemon has left
    words += [f"{name} is {_changes(count)} behind" for name, count in behind.items()]
    if lag.problem is not None:
        words.append(f"one cannot be archived: {lag.problem}")
        return Finding("note", "; ".join(words), "It is tried again; the other ones go on.")
    return Finding("ok", "; ".join(words))


def _lag(journal: Path, ledger: Path) -> _Lag:
    with closing(_opened(ledger)) as db:
        place = db.execute("SELECT number FROM checkpoint").fetchone()
        pending = db.execute("SELECT run_loop_id, problem FROM pending").fetchall()
    after = place[0] if place else 0
    with closing(_opened(journal)) as db:
        changes, oldest = db.execute(
            "SELECT count(*), min(at) FROM changes WHERE number > ?", (after,)
        ).fetchone()
        at_work = {
            row[0] for row in db.execute("SELECT id FROM run_loops WHERE status = ?", (_AT_WORK,))
        }
    waiting = [problem for run_loop_id, problem in pending if run_loop_id not in at_work]
    return _Lag(
        changes,
        None if oldest is None else oldest / 1000,
        len(waiting),
        next(filter(None, waiting), None),
    )


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def _in_words(lag: _Lag) -> str:
    if not (lag.changes or lag.waiting):
        return f"{_LONG_TERM} has read all changes"
    told = []
    if lag.changes:
        age = "" if lag.since is None else f", for {_duration(time.time() - lag.since)}"
        told.append(f"is {_changes(lag.changes)} behind the journal{age}")
    if lag.waiting:
        told.append(f"has {lag.waiting} run loop{'' if lag.waiting == 1 else 's'} to archive")
    return f"{_LONG_TERM} {' and '.join(told)}"


def _changes(count: int) -> str:
    return f"{count:,} change{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def _in_daemon(settings: Settings) -> dict[str, int]:
    """By how many changes each reader in the daemon is behind; nothing where there is none."""
    with Daemon(settings) as daemon:
        try:
            return read_as(Stats, daemon.get("/v1/memory/stats")).readers
        except DaemonError:
            return {}  # the check of the daemon tells
