"""What an owner can do with their schedules: add, look at, pause, resume, run now, remove."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from service.agent.schedules.schedule_runner import ScheduleRunner
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.domain.ids import id_of, new_id
from service.domain.run_loops import Status
from service.domain.text import well_formed
from service.memory.journal.protocol import Journal
from service.memory.journal.schedule_store import Opened
from service.schedules.due import Due, paused_meanwhile
from service.schedules.phrases.reading import read_when
from service.schedules.schedule import (
    LONGEST_WHAT,
    Occurrence,
    Schedule,
    ScheduleKind,
    Settlement,
)
from service.schedules.timing_words import language_of, moment_in_words
from service.storage.clock import local_zone_name
from service.tools.approval import ApprovalPolicy
from service.tools.model_text import did_you_mean
from service.tools.registry import ToolRegistry

log = logging.getLogger(__name__)

_MOST_NOTICES = 200
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Notice:
    """What a client tells its owner, once: a run loop that a schedule has opened."""

    schedule: Schedule
    occurrence: Occurrence
    run_loop_id: str
    status: Status
    text: str


class ScheduleActions:
    """The schedules of all owners, as each of them sees their own."""

    def __init__(
        self,
        journal: Journal,
        runner: ScheduleRunner,
        tools: ToolRegistry,
        policy: ApprovalPolicy,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._journal = journal
        self._runner = runner
        self._tools = tools
        self._policy = policy
        self._now = now

    async def add(
        self,
        what: str,
        when: str,
        *,
        kind: ScheduleKind = "reminder",
        zone: str | None = None,
        grants: Sequence[str] = (),
        owner: str = "me",
        idempotency_key: str | None = None,
    ) -> Schedule:
        """Have something told or done, once or again and again.

        Args:
            what: for a reminder, what is told; for a task, the message that is sent.
            when: in words (English or Chinese), or a time of ISO 8601.
            kind: whether it is told or done.
            zone: the IANA name of the time zone that is meant; None: that of this machine.
            grants: what a task may do without a yes: names of tools, or scopes as they are listed
                among what runs without asking.
            owner: whose.
            idempotency_key: adds it once, however often it is asked for with the same key.

        Raises:
            InvalidInputError: there are no words or too many, the time is not understood, is
                ambiguous or past, or what is granted cannot be.
            ConflictError: there are too many, or the key was used for another one.
            StorageError: the disk refuses; nothing was added.
        """
        check_what(what)
        self._check_grants(grants, kind)
        schedule_id, grants_once = new_id(), tuple(dict.fromkeys(grants))
        now = self._now().replace(microsecond=0)
        if idempotency_key is not None:
            schedule_id = id_of(f"{owner}\nadd {idempotency_key}")
            with suppress(NotFoundError):
                now = self.find(schedule_id, owner=owner).created_at
        zone = zone or zone_of_machine()
        timing = read_when(when, now=now, zone=zone)
        schedule = Schedule(
            id=schedule_id,
            owner=owner,
            kind=kind,
            what=well_formed(what.strip()),
            timing=timing,
            created_at=now,
            grants=grants_once,
        )
        added = await self._journal.schedules.add(schedule)
        if added.created_at != now:  # somebody else has added it just now
            timing = read_when(when, now=added.created_at, zone=zone)
        if added != replace(
            added, what=schedule.what, kind=kind, timing=timing, grants=grants_once
        ):
            raise ConflictError(
                f"the idempotency key {idempotency_key!r} was used for another schedule",
                advice="Use a new key for a new schedule.",
            )
        return added

    def _check_grants(self, grants: Sequence[str], kind: ScheduleKind) -> None:
        if grants and kind != "task":
            raise InvalidInputError(
                "a reminder does nothing, and needs no grants", advice="Leave `allow` out."
            )
        for scope in grants:
            name = scope.split(" ", 1)[0]
            if self._tools.get(name) is None:
                meant = did_you_mean(name, self._tools.names)
                raise InvalidInputError(
                    f"there is no tool {name!r}.{meant}", advice="`rondo tools` lists them."
                )
            if self._policy.asks_each_time(name):
                raise InvalidInputError(
                    f"each call of {name} needs a yes of its own, by the settings",
                    advice="Leave it out: the run loop will wait for you.",
                )

    def all(self, *, owner: str = "me") -> tuple[Schedule, ...]:
        """An owner's schedules, newest first."""
        return self._journal.schedules.of(owner)

    def find(self, schedule_id: str, *, owner: str = "me") -> Schedule:
        """One schedule.

        Raises:
            NotFoundError: the owner has no such schedule.
        """
        return self._journal.schedules.find(schedule_id, owner=owner)

    def upcoming(self, schedule: Schedule, *, count: int = 3) -> list[datetime]:
        """The next times of a schedule; none where it has ended."""
        due = self._journal.schedules.next_due(schedule.id)
        if due is None:
            return []
        return [due, *schedule.timing.upcoming(max(due, self._now()), count - 1)]

    async def occurrences(
        self, schedule_id: str, *, limit: int = 20, owner: str = "me"
    ) -> list[Occurrence]:
        """What became of the newest times of a schedule, newest first.

        Raises:
            NotFoundError: the owner has no such schedule.
            StorageError: the journal cannot be read.
        """
        self.find(schedule_id, owner=owner)
        return await self._journal.schedules.occurrences(schedule_id, limit=limit)

    async def pause(self, schedule_id: str, *, owner: str = "me") -> Schedule:
        """Let it be due no more, until it is resumed.

        Raises:
            NotFoundError: the owner has no such schedule.
            ConflictError: it has ended.
        """
        return await self._journal.schedules.set_paused(schedule_id, owner=owner, paused=True)

    async def resume(self, schedule_id: str, *, owner: str = "me") -> Schedule:
        """Let it be due again; what came due meanwhile is skipped.

        Raises:
            NotFoundError: the owner has no such schedule.
            ConflictError: it has ended, or its one time has passed meanwhile.
        """
        store = self._journal.schedules
        schedule, due = self.find(schedule_id, owner=owner), store.next_due(schedule_id)
        if schedule.state == "paused" and due is not None and due <= self._now():
            settlement = paused_meanwhile(schedule, due, now=self._now())
            with suppress(ConflictError):  # somebody else has resumed it just now
                await store.settle(settlement)
            if settlement.next_due is None:
                at = moment_in_words(due, schedule.timing.zone)
                raise ConflictError(
                    f"its time was {at}, while it was paused",
                    advice="`rondo schedules run` does it now; or add it anew.",
                )
        return await store.set_paused(schedule_id, owner=owner, paused=False)

    async def remove(self, schedule_id: str, *, owner: str = "me") -> Schedule:
        """Let nothing be left of it; the run loops that it opened stay.

        Raises:
            NotFoundError: the owner has no such schedule.
        """
        return await self._journal.schedules.remove(schedule_id, owner=owner)

    async def run_now(self, schedule_id: str, *, owner: str = "me") -> str:
        """Tell or do it now, whatever its time; the id of the run loop.

        Its next time stays.

        Raises:
            NotFoundError: the owner has no such schedule.
            StorageError: the disk refuses; nothing was done.
        """
        schedule = self.find(schedule_id, owner=owner)
        now = self._now()
        for step in range(_TRIES):  # a time has one row: two in one millisecond are two times
            due = now + timedelta(milliseconds=step)
            row = Occurrence(schedule.id, due, "ran", "by_hand", now, new_id(), seen=True)
            settlement = Settlement(schedule.id, None, (row,), None)
            with suppress(ConflictError):
                return await self._runner.open(Due(schedule, row, 0, None, settlement))
            self.find(schedule_id, owner=owner)
        raise ConflictError("it is run again and again just now", advice="Try it in a moment.")

    async def notices(self, *, owner: str = "me") -> list[Notice]:
        """What no client has told the owner yet, oldest first; see `seen`.

        Raises:
            StorageError: the journal cannot be read.
        """
        opened = await self._journal.schedules.unseen(owner, limit=_MOST_NOTICES)
        notices = [await self._notice(each) for each in opened]
        return [each for each in notices if each is not None]

    async def seen(self, run_loop_ids: Collection[str], *, owner: str = "me") -> None:
        """A client has told the owner of these run loops.

        Raises:
            StorageError: the disk refuses; they are told once more.
        """
        await self._journal.schedules.mark_seen(run_loop_ids, owner=owner)

    async def _notice(self, opened: Opened) -> Notice | None:
        schedule, occurrence = opened
        run_loop_id = occurrence.run_loop_id or ""
        try:
            run_loop = (await self._journal.replay(run_loop_id, owner=schedule.owner)).run_loop()
        except NotFoundError:
            return None
        if schedule.kind == "task" and occurrence.state == "ran":
            text = _begun(schedule, occurrence)
        else:
            text = next((each.response for each in run_loop.iterations if each.response), "")
        return Notice(schedule, occurrence, run_loop_id, run_loop.status, text or schedule.what)


def _begun(schedule: Schedule, occurrence: Occurrence) -> str:
    language = language_of(schedule.what)
    at = moment_in_words(occurrence.due, schedule.timing.zone, language)
    if language == "zh":
        return f"按计划开始了（{at}）：{schedule.what}"
    return f"Begun as scheduled, {at}: {schedule.what}"


def check_what(what: str) -> None:
    """See to it that a schedule has words that can be kept.

    Raises:
        InvalidInputError: it has none, or too many.
    """
    if not what.strip():
        raise InvalidInputError("what is to be told or done is not said", advice="Add it.")
    if len(what) > LONGEST_WHAT:
        raise InvalidInputError(
            f"that is longer than {LONGEST_WHAT:,} characters", advice="Say it shorter."
        )


def zone_of_machine() -> str:
    """The time zone of this machine.

    Raises:
        InvalidInputError: the machine does not tell its name.
    """
    name = local_zone_name()
    if name is None:
        raise InvalidInputError(
            "this machine does not tell the name of its time zone",
            advice="Give one, such as Europe/Berlin, or set the variable TZ of the daemon.",
        )
    return name
