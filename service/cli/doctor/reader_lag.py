"""The check of `rondo doctor` that tells how far those who live off the journal are behind it."""

from __future__ import annotations

import time

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.stream_items import read_as
from service.cli.doctor.findings import Finding
from service.config import Settings
from service.domain.errors import StorageError
from service.memory.stores import ReaderLag, reader_lag
from service.wire.memory_bodies import Stats

_LONG_TERM = "long-term memory"


def check_readers(settings: Settings) -> Finding:
    """Whether all that was journaled is archived, and nobody in the daemon is stuck."""
    try:
        lag = reader_lag(settings.data_dir)
    except StorageError as error:
        advice = "The next start of the daemon brings the files up to date."
        return Finding("note", f"how far memory is behind cannot be read: {error.detail}", advice)
    if lag is None:
        return Finding("ok", "nothing was journaled yet")
    words = [_in_words(lag)]
    behind = {name: count for name, count in _in_daemon(settings).items() if count}
    behind.pop(_LONG_TERM, None)  # by the files, which also tell what a stopped daemon has left
    words += [f"{name} is {_changes(count)} behind" for name, count in behind.items()]
    if lag.problem is not None:
        words.append(f"one cannot be archived: {lag.problem}")
        return Finding("note", "; ".join(words), "It is tried again; the other ones go on.")
    return Finding("ok", "; ".join(words))


def _in_words(lag: ReaderLag) -> str:
    if not (lag.changes or lag.waiting):
        return f"{_LONG_TERM} has read all changes"
    clauses = []
    if lag.changes:
        age = "" if lag.since is None else f", for {_duration(time.time() - lag.since)}"
        clauses.append(f"is {_changes(lag.changes)} behind the journal{age}")
    if lag.waiting:
        clauses.append(f"has {lag.waiting} run loop{'' if lag.waiting == 1 else 's'} to archive")
    return f"{_LONG_TERM} {' and '.join(clauses)}"


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
