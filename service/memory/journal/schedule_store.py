"""Schedules as the journal keeps them: what is to be told or done, when, and what became of it.

That a time has come, and the first events of the run loop that it opens, are written in one
transaction (`Journal.append` with ``settling``): neither is ever there without the other.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, Protocol

import anyio

from service.schedules.schedule import Occurrence, Schedule, Settlement


class Pending(NamedTuple):
    """An active schedule, and the next time that it is due."""

    schedule: Schedule
    due: datetime


class Opened(NamedTuple):
    """A run loop that a schedule opened."""

    schedule: Schedule
    occurrence: Occurrence


class Schedules(Protocol):
    """What is kept of schedules. What is not awaited asks no file; for the event loop's thread.

    All that writes raises StorageError when the disk refuses; then nothing has changed.
    """

    @property
    def changed(self) -> anyio.Event:
        """Set, and replaced, when a schedule is added, changed or removed."""
        ...

    def of(self, owner: str) -> tuple[Schedule, ...]:
        """An owner's schedules, newest first."""
        ...

    def find(self, schedule_id: str, *, owner: str) -> Schedule:
        """One of them.

        Raises:
            NotFoundError: the owner has no such schedule.
        """
        ...

    def pending(self) -> tuple[Pending, ...]:
        """All active schedules of all owners, those first that are due first."""
        ...

    def next_due(self, schedule_id: str) -> datetime | None:
        """The next time of a schedule that is active or paused; None: it has ended."""
        ...

    def grants(self, run_loop_id: str) -> frozenset[str] | None:
        """What may be done unasked in a run loop that a schedule opened; None: none has."""
        ...

    async def add(self, schedule: Schedule) -> Schedule:
        """Keep a schedule; the one that is there where its id is taken by the same owner.

        Raises:
            ConflictError: its owner has too many, or the id is another owner's.
        """
        ...

    async def settle(self, settlement: Settlement) -> None:
        """Write what became of a schedule's times, without a run loop.

        Raises:
            ConflictError: it was settled, changed or removed meanwhile.
        """
        ...

    async def set_paused(self, schedule_id: str, *, owner: str, paused: bool) -> Schedule:
        """Let it rest, or be due again.

        Raises:
            NotFoundError: the owner has no such schedule.
            ConflictError: it has ended.
        """
        ...

    async def remove(self, schedule_id: str, *, owner: str) -> Schedule:
        """Let nothing be left of a schedule, nor of its times; the run loops that it opened stay.

        Raises:
            NotFoundError: the owner has no such schedule.
        """
        ...

    async def occurrences(self, schedule_id: str, *, limit: int) -> list[Occurrence]:
        """What became of its newest times, newest first, and the pending one."""
        ...

    async def decided_after(self, moment: datetime) -> list[Occurrence]:
        """The times after a moment, of all schedules, of which it was decided before, in order;
        and those that stand for several of which the last is after it.

        There are some only where the clock was set back.
        """
        ...

    async def take_back(
        self,
        schedule_id: str,
        gone: Collection[Occurrence],
        shortened: Collection[Occurrence],
        due: datetime,
    ) -> None:
        """Let times not count as skipped, as they are still to come; the pending one is another.

        Args:
            schedule_id: whose.
            gone: what was skipped and is still to come.
            shortened: rows for several times of which some are still to come: as they are now.
            due: which is pending from now on.
        """
        ...

    async def unseen(self, owner: str, *, limit: int) -> list[Opened]:
        """Run loops that schedules opened, and that no client of the owner was told of; oldest
        first."""
        ...

    async def mark_seen(self, run_loop_ids: Collection[str], *, owner: str) -> None:
        """A client was told of these."""
        ...
