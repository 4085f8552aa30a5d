"""No hook can break a run loop: it goes on as if the hook were not there, or blocks the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message, ToolCall, ToolResult
from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.errors import ConfigurationError, StorageError
from service.domain.history.events import ErrorOccurred, EventBody
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.memory.journal.change_feed import Commit
from tests.support.agent.agents import (
    answer_of,
    running_agent,
    sent,
    types,
)
from tests.support.agent.hooking import (
    MISHAPS,
    Looks,
    broken,
    calls_then_tells,
    failures,
    impatient,
    raises,
    results,
)

pytestmark = pytest.mark.anyio

NOTHING: Any = None


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before_model_call", "after_model_call", "after_tool_call"])
@pytest.mark.parametrize("mishap", MISHAPS)
async def test_a_hook_that_does_not_work_is_reported_once_a_time_and_the_loop_goes_on(
    tmp_path: Path, point: str, mishap: str
) -> None:
    looks = Looks("read_only")
    options = impatient(broken(point, MISHAPS[mishap]))
    async with running_agent(tmp_path, calls_then_tells, looks.tool, **options) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "Look!")
        assert answer_of(events) == "The tool said: a cat"
        assert types(events)[-1] == "run_loop.idle"
        assert len(failures(events)) == (1 if point == "after_tool_call" else 2)
        # It is journaled, for those who look later.
        journaled = await agent.memory.journal.read(run_loop_id=events[0].run_loop_id)
        assert failures(journaled) == failures(events)


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["side_effects", "read_only"])
@pytest.mark.parametrize("mishap", MISHAPS)
async def test_a_check_that_does_not_work_has_not_allowed_anything(
    tmp_path: Path, mishap: str, effect: ToolEffect
) -> None:
    async def wrong() -> bool:
        return True  # whatever was meant by it: words or None are asked for

    does = wrong if mishap == "gives the wrong thing" else MISHAPS[mishap]
    looks = Looks(effect)
    options = impatient(broken("before_tool_call", does))
    async with running_agent(tmp_path, calls_then_tells, looks.tool, **options) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "Look!")
    assert looks.ran == 0
    assert [result.is_error for result in results(events)] == [True]
    assert "a check that comes before each tool call failed" in answer_of(events)
    assert len(failures(events)) == 1
    assert types(events)[-1] == "run_loop.idle"


CALL = ToolCall(id="c", name="look")
LONELY = ToolResult(id="nobody", content="?")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "given"),
    [
        ("before_model_call", []),
        ("before_model_call", [Message.user("hi"), "words"]),
        ("before_model_call", [Message.user("hi"), Message.assistant("", (CALL,))]),
        ("before_model_call", [Message.user("hi"), Message.tool(LONELY)]),
        ("before_model_call", [Message.user("\ud800")]),
        ("after_model_call", Message.user("I am you")),
        ("after_model_call", Message.assistant("")),
        ("after_model_call", Message.assistant("", (CALL, CALL))),
        ("after_model_call", Message.assistant("\ud800")),
        ("after_tool_call", LONELY),
        ("after_tool_call", ToolResult.model_construct(id="c0", content=NOTHING)),
    ],
    ids=str,
)
async def test_what_would_spoil_the_conversation_is_not_taken(
    tmp_path: Path, point: str, given: object
) -> None:
    async def gives() -> object:
        return given

    looks = Looks()
    hooks = [broken(point, gives)]
    async with running_agent(tmp_path, calls_then_tells, looks.tool, hooks=hooks) as agent:
        events = await sent(agent, "Look!")
    assert answer_of(events) == "The tool said: a cat"
    assert failures(events)


async def test_an_over_long_result_of_a_hook_is_kept_to_what_can_be_stored(tmp_path: Path) -> None:
    class Floods(Hooks):
        async def after_tool_call(
            self, loop: Loop, call: ToolCall, result: ToolResult
        ) -> ToolResult:
            return result.model_copy(update={"content": "词" * 3_000_000})

    async with running_agent(tmp_path, calls_then_tells, Looks().tool, hooks=[Floods()]) as agent:
        (result,) = results(await sent(agent, "Look!"))
    assert result.whole is not None
    assert len(result.content) < 30_000 < len(result.whole) < 1_001_000


async def test_cancelling_does_not_wait_for_a_hook(tmp_path: Path) -> None:
    entered = anyio.Event()

    class Sleeps(Hooks):
        async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
            entered.set()
            await anyio.sleep_forever()
            return messages

    async with (
        running_agent(tmp_path, hooks=[Sleeps()]) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(sent, agent, "hello")
        with anyio.fail_after(10):
            await entered.wait()
            loop = await agent.cancel(agent.memory.short_term.states()[0].id)
        assert loop.status == "cancelled"
        assert failures(await agent.memory.journal.read(run_loop_id=loop.id)) == []


async def test_a_failure_that_cannot_be_journaled_breaks_nothing_either(tmp_path: Path) -> None:
    def refuse_errors(agent: Agent) -> None:
        append = agent.memory.journal.append

        async def refusing(run_loop_id: str, *bodies: EventBody, **options: Any) -> Commit:
            if any(isinstance(body, ErrorOccurred) for body in bodies):
                raise StorageError("database or disk is full")
            return await append(run_loop_id, *bodies, **options)

        agent.memory.journal.append = refusing  # type: ignore[method-assign]

    looks = Looks("read_only")
    hooks = [broken("before_tool_call", raises)]
    async with running_agent(tmp_path, calls_then_tells, looks.tool, hooks=hooks) as agent:
        refuse_errors(agent)
        events = await sent(agent, "Look!")
        assert types(events)[-1] == "run_loop.idle"
        assert (looks.ran, failures(events)) == (0, [])


async def test_a_class_in_the_place_of_its_instance_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not an instance of"):
        async with running_agent(tmp_path, hooks=[Hooks]):
            pass


# --- routing and archiving


@pytest.mark.parametrize("mishap", ["raises", "hangs", "gives the wrong thing"])
async def test_a_routing_hook_that_does_not_work_keeps_no_message_from_its_loop(
    tmp_path: Path, mishap: str
) -> None:
    options = impatient(broken("before_routing", MISHAPS[mishap]))
    async with running_agent(tmp_path, **options) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "hello")
            await sent(agent, "hello again", events[0].run_loop_id)
    assert answer_of(events) == "You said: hello"
    assert len(failures(events)) == 1


async def test_a_hook_that_fails_after_routing_is_told_in_the_loop(tmp_path: Path) -> None:
    async with running_agent(tmp_path, hooks=[broken("after_routing", raises)]) as agent:
        events = await sent(agent, "hello")
        assert answer_of(events) == "You said: hello"
        run_loop_id = events[0].run_loop_id

        async def all_failures() -> list[str]:
            return failures(await agent.memory.journal.read(run_loop_id=run_loop_id))

        with anyio.fail_after(10):
            while not await all_failures():
                await anyio.sleep(0.01)
        assert await all_failures() == [
            "the hook Broken.after_routing of yours failed: ValueError: 太糟糕了"
        ]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before_archiving", "after_archiving"])
@pytest.mark.parametrize("mishap", ["raises", "hangs"])
async def test_an_archiving_hook_that_does_not_work_keeps_nothing_out_of_memory(
    tmp_path: Path, point: str, mishap: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = impatient(broken(point, MISHAPS[mishap]))
    async with running_agent(tmp_path, **options) as agent:
        events = await sent(agent, "The blue bicycle is in the cellar.")
        await agent.complete(events[0].run_loop_id)
        with anyio.fail_after(20):
            await agent.memory.archivist.drain()
        search_results = await agent.memory.long_term.search("blue bicycle", owner="me", limit=5)
    assert search_results.hits
    assert f"Broken.{point}" in caplog.text
