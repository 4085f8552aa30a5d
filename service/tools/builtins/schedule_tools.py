"""Reminders and schedules by the model: a person sees what, when, and the next times, and says yes.

A time is understood from the moment on at which the person spoke, however long their yes takes: so
what they agree to is what is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import InvalidInputError
from service.domain.ids import id_of
from service.domain.run_loops import RunLoop
from service.domain.text import well_formed
from service.schedules.phrases.reading import LONGEST_PHRASE, read_when
from service.schedules.recurrence import Timing
from service.schedules.schedule import LONGEST_WHAT, Schedule, ScheduleKind
from service.schedules.timing_words import language_of, moment_in_words, timing_in_words
from service.storage.clock import local_zone_name
from service.tools.builtins.read_result import Load
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure

if TYPE_CHECKING:
    from service.memory.journal.schedule_store import Schedules

NAMES = ("remind_me", "schedule")
_SHOWN_TIMES = 3

When = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_PHRASE,
        description="As the person said it, such as: in 20 minutes; tomorrow at 9; every weekday"
        " at 8; 每周一早上九点. Or a date and time of ISO 8601.",
    ),
]


@dataclass(frozen=True, slots=True)
class ScheduleTool:
    """A tool that adds a schedule; tells a person beforehand what a call comes to."""

    kind: ScheduleKind
    function: FunctionTool
    now: Callable[[], datetime]

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return self.function.definition

    @property
    def effect(self) -> ToolEffect:
        """The same call adds one schedule, however often it runs."""
        return "idempotent"

    @property
    def needs_approval(self) -> bool:
        """A person agrees to each."""
        return True

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return self.function.timeout_seconds

    def check(self, arguments: str) -> None:
        """See `ChecksArguments`."""
        self.function.check(arguments)

    def call_in_words(self, arguments: str, run_loop: RunLoop) -> str | None:
        """See `DescribesCall`."""
        from service.tools.arguments import json_object

        self.check(arguments)
        given = json_object(arguments)
        what, when = given.get("what"), given.get("when")
        if not (isinstance(what, str) and isinstance(when, str)):
            return None
        now = self.now()
        _check_words(what)
        return in_words(self.kind, what, timing_of(when, run_loop, now), now)

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self.function.run(arguments, context)


def schedule_tools(
    schedules: Schedules,
    load: Load,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> tuple[ScheduleTool, ScheduleTool]:
    """The tools `remind_me` and `schedule`.

    Args:
        schedules: where they are kept.
        load: gives the run loop in which a tool is called.
        now: gives the moment.
    """

    async def add(kind: ScheduleKind, what: str, when: str, context: ToolContext) -> str:
        run_loop = await load(context.run_loop_id)
        moment = now()
        _check_words(what)
        timing = timing_of(when, run_loop, moment)
        schedule = Schedule(
            # The same for every attempt of the same call.
            id=id_of(f"{context.owner}\n{context.idempotency_key}"),
            owner=context.owner,
            kind=kind,
            what=well_formed(what.strip()),
            timing=timing,
            created_at=moment,
            run_loop_id=context.run_loop_id,
        )
        added = await schedules.add(schedule)
        return f"Set ({added.id}). {in_words(added.kind, added.what, added.timing, moment)}"

    @tool(effect="idempotent", needs_approval=True)
    async def remind_me(
        what: Annotated[
            str,
            Field(
                min_length=1,
                max_length=LONGEST_WHAT,
                description="What they are told then, in their own words and language; without"
                " the time.",
            ),
        ],
        when: When,
        context: ToolContext,
    ) -> str:
        """Remind the person of something at a time, once or again and again."""
        return await add("reminder", what, when, context)

    @tool(effect="idempotent", needs_approval=True)
    async def schedule(
        what: Annotated[
            str,
            Field(
                min_length=1,
                max_length=LONGEST_WHAT,
                description="The request as the person would send it then; without the time.",
            ),
        ],
        when: When,
        context: ToolContext,
    ) -> str:
        """Do something for the person at a time, once or again and again: you are sent the request
        then. To only tell them something, use `remind_me`."""
        return await add("task", what, when, context)

    return ScheduleTool("reminder", remind_me, now), ScheduleTool("task", schedule, now)


def _check_words(what: str) -> None:
    if not what.strip():
        raise ToolFailure("`what` is empty: say what it is about.")


def timing_of(when: str, run_loop: RunLoop | None, now: datetime) -> Timing:
    """When it is due, as understood at the moment at which the person spoke.

    Raises:
        ToolFailure: it is not understood, or past by now.
    """
    zone = local_zone_name()
    if zone is None:
        raise ToolFailure(
            "This machine does not tell its time zone. Tell the person to set the variable TZ of"
            " the daemon, such as TZ=Europe/Berlin."
        )
    try:
        timing = read_when(when, now=min(_said_at(run_loop) or now, now), zone=zone)
    except InvalidInputError as error:
        raise ToolFailure(f"`when`: {error.detail}. {error.advice}") from error
    due = timing.next_after(now)
    if due is None:
        at = moment_in_words(timing.start, zone)
        raise ToolFailure(f"{at} has passed meanwhile. Ask the person for another time.")
    return timing.model_copy(update={"start": due})


def _said_at(run_loop: RunLoop | None) -> datetime | None:
    """When the person last spoke in a run loop."""
    iterations = run_loop.iterations if run_loop else ()
    return next((each.timestamp for each in reversed(iterations) if each.user_message), None)


def in_words(kind: ScheduleKind, what: str, timing: Timing, now: datetime) -> str:
    """What is told or done, and when: shown to a person before their yes, and to the model after.

    >>> timing = Timing(start=datetime(2026, 11, 25, 9, tzinfo=UTC), zone="UTC")
    >>> in_words("reminder", "call mum", timing, datetime(2026, 11, 24, tzinfo=UTC))
    'Reminder: “call mum”, Wed 2026-11-25 09:00 (UTC).'
    """
    language = language_of(what)
    when = timing_in_words(timing, language)
    names = (
        {"reminder": "提醒", "task": "定时任务"}
        if language == "zh"
        else ({"reminder": "Reminder", "task": "To be done"})
    )
    times = ""
    if timing.recurrence is not None:
        upcoming = timing.upcoming(now, _SHOWN_TIMES)
        shown = ", ".join(moment_in_words(each, timing.zone, language) for each in upcoming)
        times = f"接下来：{shown}。" if language == "zh" else f" Next: {shown}."
    if language == "zh":
        return f"{names[kind]}：“{what.strip()}”，{when}。{times}".strip()
    return f"{names[kind]}: “{what.strip()}”, {when}.{times}"
