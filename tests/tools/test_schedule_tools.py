"""`remind_me` and `schedule`: what a person agrees to is what is made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.domain.run_loops import RunLoop
from service.memory.memory import Memory
from service.tools.builtins.schedule_tools import ScheduleTool, schedule_tools
from service.tools.registry import ToolRegistry
from tests.support.memory.remembering import run_loop
from tests.support.tools.tool_calls import CONTEXT, call_of

pytestmark = pytest.mark.anyio

SAID_AT = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")


class Setting:
    """The tools over a memory, and a clock."""

    def __init__(self, memory: Memory) -> None:
        self.store = memory.journal.schedules
        self.now = SAID_AT
        self.loop = run_loop("loop", ("remind me", ""), status="running")
        at = self.loop.iterations[0].model_copy(update={"timestamp": SAID_AT})
        self.loop = self.loop.model_copy(update={"iterations": (at,)})
        self.reminder, self.task = schedule_tools(self.store, self.load, now=lambda: self.now)

    async def load(self, run_loop_id: str) -> RunLoop:
        return self.loop

    async def call(self, tool: ScheduleTool, **arguments: str) -> tuple[str, bool]:
        registry = ToolRegistry([tool])
        result = await registry.execute(call_of(tool.definition.name, **arguments), CONTEXT)
        return result.content, result.is_error


async def test_a_reminder_is_set_and_told_back_with_its_next_times(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        setting = Setting(memory)
        content, is_error = await setting.call(
            setting.reminder, what="water the plants", when="every weekday at 8"
        )
        [kept] = setting.store.of("me")
        assert not is_error
        assert content == (
            f"Set ({kept.id}). Reminder: “water the plants”, every weekday at 08:00"
            " (Europe/Berlin). Next: Wed 2026-11-25 08:00, Thu 2026-11-26 08:00,"
            " Fri 2026-11-27 08:00."
        )
        assert (kept.kind, kept.run_loop_id, kept.grants) == ("reminder", "loop", ())
        in_chinese = setting.task.call_in_words(
            '{"what": "总结新闻", "when": "每周一早上九点"}', setting.loop
        )
        assert in_chinese is not None
        assert in_chinese.startswith(
            "定时任务：“总结新闻”，每周一 09:00 (Europe/Berlin)。接下来：2026-11-30 周一 09:00"
        )


async def test_the_same_call_sets_one_however_often_it_runs(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        setting = Setting(memory)
        for _ in range(2):
            await setting.call(setting.reminder, what="call mum", when="in 20 minutes")
        assert len(setting.store.of("me")) == 1


async def test_what_a_person_is_asked_is_what_is_made_however_late_they_say_yes(
    tmp_path: Path,
) -> None:
    async with Memory(tmp_path, None) as memory:
        setting = Setting(memory)
        question = setting.reminder.call_in_words(
            '{"what": "call mum", "when": "tomorrow at 9"}', setting.loop
        )
        assert question == "Reminder: “call mum”, Wed 2026-11-25 09:00 (Europe/Berlin)."
        setting.now = SAID_AT + timedelta(hours=13)  # tomorrow has come
        content, _ = await setting.call(setting.reminder, what="call mum", when="tomorrow at 9")
        assert content.endswith(question)


async def test_a_time_that_passed_before_the_yes_is_not_made_up_for(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:
        setting = Setting(memory)
        setting.now = SAID_AT + timedelta(hours=1)
        content, is_error = await setting.call(
            setting.reminder, what="tea is ready", when="in 5 minutes"
        )
        assert is_error
        assert content == (
            "Tue 2026-11-24 13:05 has passed meanwhile. Ask the person for another time."
        )
        await setting.call(setting.reminder, what="stretch", when="every 10 minutes")
        [kept] = setting.store.of("me")
        assert kept.timing.start == SAID_AT + timedelta(minutes=70)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"what": "x", "when": "tomorrow"}, "`when`: at what time is not said. Add it"),
        ({"what": "x", "when": "at 3"}, "Say 3am, 3pm or 15:00"),
        ({"what": "x", "when": "every 10 seconds"}, "by the minute"),
        ({"what": "  ", "when": "tomorrow at 9"}, "`what` is empty"),
        ({"what": "x"}, "when"),
    ],
)
async def test_what_is_not_clear_is_a_failure_that_a_model_can_act_on(
    tmp_path: Path, arguments: dict[str, str], why: str
) -> None:
    async with Memory(tmp_path, None) as memory:
        setting = Setting(memory)
        content, is_error = await setting.call(setting.reminder, **arguments)
        assert is_error
        assert why in content
        assert setting.store.of("me") == ()
