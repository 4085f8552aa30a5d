"""The runner of schedules: waits for the next time, and opens the run loop of what has come due.

It goes by the clock on the wall, which is set, and which runs on while the machine sleeps: so it
looks again every half a minute at the latest. What has come due is written in one transaction with
the run loop that it opens, so that a crash at any moment neither loses nor doubles it.

Nothing is early. Where a clock was ahead and is set back, what had run by it does not run again;
what had only been skipped by it is still to come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import anyio.to_thread

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, StorageError
from service.domain.history.events import (
    EventBody,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RouteDecided,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.ids import new_id
from service.domain.routes import Route
from service.memory.journal.protocol import Journal
from service.memory.journal.schedule_store import Pending
from service.schedules.due import Due, come_due, free_after
from service.schedules.reminder_words import due_in_words, reason_in_words
from service.schedules.schedule import SCHEDULED, Occurrence, Schedule
from service.tuning import SCHEDULE_LOOK_SECONDS

log = logging.getLogger(__name__)


class ScheduleRunner:
    """Opens the run loops of schedules, each time once."""

    def __init__(
        self,
        journal: Journal,
        wake: Callable[[str], None],
        *,
        retry_seconds: float = 5.0,
        look_seconds: float = SCHEDULE_LOOK_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Name what it works with.

        Args:
            journal: open.
            wake: has a run loop go on, by its id.
            retry_seconds: after the disk has refused: until it is asked again.
            look_seconds: how long at most it does not look at the clock.
            now: the clock.
        """
        self._journal = journal
        self._wake = wake
        self._retry = retry_seconds
        self._look_seconds = look_seconds
        self._now = now

    async def run(self) -> None:
        """Open run loops, until cancelled."""
        while True:
            changed = self._journal.schedules.changed
            try:
                sleep = await self.look()
            except StorageError as error:
                log.error("schedules cannot be looked at yet: %s", error.problem().in_words())
                sleep = self._retry
            except Exception:
                # Such as a row of a newer version: it must not end all else that the agent does.
                log.exception("schedules cannot be looked at")
                sleep = self._look_seconds
            with anyio.move_on_after(sleep):
                await changed.wait()

    async def look(self) -> float:
        """Open the run loops of all that is due; after how many seconds to look again.

        Raises:
            StorageError: the disk refuses; what was opened before is opened.
        """
        now = self._now()
        await self._take_back(now)
        for schedule, due in self._journal.schedules.pending():
            if due > now:
                break
            try:
                await self._open(schedule, due, now)
            except ConflictError as error:
                log.info("schedule %s is looked at again: %s", schedule.id, error)
            except StorageError:
                raise
            except Exception:
                # One that cannot be read must not keep the others from being told.
                log.exception("schedule %s cannot be told or done", schedule.id)
        return self._until_next(now)

    def _until_next(self, now: datetime) -> float:
        waits = (due - now for _, due in self._journal.schedules.pending() if due > now)
        soonest = min((each.total_seconds() for each in waits), default=self._look_seconds)
        return min(soonest, self._look_seconds)

    async def _open(self, schedule: Schedule, pending: datetime, now: datetime) -> None:
        decided = frozenset(
            each.due
            for each in await self._journal.schedules.decided_after(pending)
            if each.schedule_id == schedule.id
        )

        def decide() -> Due | None:
            return come_due(schedule, pending, now=now, run_loop_id=new_id(), decided=decided)

        due = await anyio.to_thread.run_sync(decide)
        if due is not None:
            await self.open(due)

    async def open(self, due: Due) -> str:
        """Open the run loop of what has come due, and write what became of all its times; its id.

        Raises:
            ConflictError: the schedule was changed meanwhile; nothing was written.
            StorageError: the disk refuses; nothing was written.
        """
        run_loop_id = due.newest.run_loop_id or new_id()
        await self._journal.append(
            run_loop_id,
            *opening_events(due),
            owner=due.schedule.owner,
            durable=True,
            settling=due.settlement,
        )
        self._wake(run_loop_id)
        return run_loop_id

    async def _take_back(self, now: datetime) -> None:
        """Where the clock was set back: let what was skipped by it alone be still to come."""
        store = self._journal.schedules
        ahead = await store.decided_after(now)
        if not ahead:
            return
        for entry in store.pending():
            mine = [each for each in ahead if each.schedule_id == entry.schedule.id]
            if mine:
                await self._take_back_of(entry, mine, now)

    async def _take_back_of(
        self, entry: Pending, ahead: Sequence[Occurrence], now: datetime
    ) -> None:
        schedule, pending = entry
        ran = {each.due for each in ahead if each.state == "ran"}
        due = free_after(schedule, now, ran)
        if due is None or due >= pending:
            return
        skipped = [each for each in ahead if each.state == "skipped"]
        gone = [each for each in skipped if each.due > now]
        shortened = [_up_to(schedule, each, now) for each in skipped if each.due <= now]
        await self._journal.schedules.take_back(schedule.id, gone, shortened, due)
        log.warning("the clock was set back: schedule %s is due at %s", schedule.id, due)


def _up_to(schedule: Schedule, together: Occurrence, now: datetime) -> Occurrence:
    """A row for several times, without those that are still to come."""
    passed = schedule.timing.passed(together.due, now, keep=1)
    count = 1 if passed.older is None else passed.older[2] + 1
    through = passed.newest[0] if count > 1 else None
    return replace(together, through=through, count=count)


def opening_events(due: Due) -> list[EventBody]:
    """How a run loop begins that a schedule opens.

    A task is a message in its owner's name, which is answered as any other. A reminder is told in
    its own words, and so is what was missed: that takes no model.
    """
    schedule = due.schedule
    message_id = new_id()
    kind = schedule.kind if due.runs else "missed"
    about = {
        "id": schedule.id,
        "kind": kind,
        "due": due.newest.due.isoformat(),
        "recurs": schedule.timing.recurrence is not None,
    }
    bodies: list[EventBody] = [
        RunLoopStarted(goal=schedule.what.strip()),
        MessageReceived(
            message_id=message_id,
            message=Message.user(schedule.what),
            metadata={SCHEDULED: about},
        ),
        RouteDecided(
            message_id=message_id,
            route=Route(
                decision="new", confidence=1.0, method="explicit", reason=reason_in_words(due)
            ),
        ),
    ]
    if schedule.kind == "task" and due.runs:
        return bodies
    return [
        *bodies,
        IterationStarted(index=0, message_ids=(message_id,)),
        MessageCompleted(message=Message.assistant(due_in_words(due))),
        RunLoopIdle(),
    ]
