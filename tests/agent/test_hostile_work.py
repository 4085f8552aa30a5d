"""Work that fails in the worst ways ends its own loop, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions, Waits
from service.domain.conversation.instructions import CallLLM
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart
from service.domain.errors import ConflictError, StorageError
from service.domain.history.events import IterationStarted, MessageCompleted, RunLoopCompleted
from service.loop.execution import Loop
from service.loop.executors.custom_executors import watched
from service.loop.scheduler import LoopHandle
from service.memory.memory import Memory
from service.tools.decorator import tool
from service.tools.registry import ToolRegistry
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    echo,
    running_agent,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio


async def _answer(instruction: CallLLM, loop: Loop) -> None:
    index = loop.state.iteration_count
    await loop.emit(IterationStarted(index=index, message_ids=instruction.message_ids))
    await loop.emit(MessageCompleted(message=Message.assistant("Fine.")))


def _agent(folder: Path, executor: Any, **options: Any) -> Agent:
    return create_agent(
        FunctionLLM(echo),
        ToolRegistry(),
        Memory(folder, None),
        AgentOptions(auto_classify=False, **options),
        executors={"call_llm": executor},
    )


_CANCELLED, _CLOSED = asyncio.CancelledError(), GeneratorExit()
_BROKEN_WORDS = ValueError("half of it: \ud800")


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("itself", SystemExit(2)),  # in a task of its own, asyncio itself ends the process
        ("itself", _CANCELLED),
        ("itself", _CLOSED),
        ("itself", _BROKEN_WORDS),
        ("itself", BaseExceptionGroup("several", [SystemExit(1), ValueError("one")])),
        ("a task", _CANCELLED),
        ("a task", _CLOSED),
        ("a task", _BROKEN_WORDS),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
async def test_an_executor_that_raises_anything_fails_its_loop_and_no_other(
    tmp_path: Path, where: str, error: BaseException
) -> None:
    async def fail() -> None:
        raise error

    async def executor(instruction: CallLLM, loop: Loop) -> None:
        if loop.state.goal != "Fail.":
            await _answer(instruction, loop)
        elif where == "itself":
            raise error
        else:
            loop.tasks.start_soon(fail)
            await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with _agent(tmp_path, executor) as agent:
            assert types(await sent(agent, "Fail."))[-1] == "run_loop.failed"
            assert answer_of(await sent(agent, "Another matter.")) == "Fine."


async def test_a_model_that_is_cancelled_by_itself_fails_the_loop_and_not_the_agent(
    tmp_path: Path,
) -> None:
    class Cancelling(FunctionLLM):
        async def stream(
            self, messages: Sequence[Message], **options: Any
        ) -> AsyncIterator[StreamPart]:
            if messages[-1].text == "Fail.":
                gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone
            async for part in super().stream(messages, **options):
                yield part

    with anyio.fail_after(20):
        async with running_agent(tmp_path, Cancelling(echo), auto_classify=False) as agent:
            assert types(await sent(agent, "Fail."))[-1] == "run_loop.failed"
            assert answer_of(await sent(agent, "Hello")) == "You said: Hello"


async def test_a_disk_that_refuses_within_a_group_of_tasks_is_waited_for(tmp_path: Path) -> None:
    refusals = [StorageError("full"), StorageError("still full")]

    async def refuse() -> None:
        raise refusals.pop()

    async def executor(instruction: CallLLM, loop: Loop) -> None:
        if refusals:
            loop.tasks.start_soon(refuse)
            await anyio.sleep_forever()
        await _answer(instruction, loop)

    async with _agent(tmp_path, executor, waits=Waits(storage_retry=0.01)) as agent:
        await agent.accept("Hello")
        await until(
            lambda: [s.status for s in agent.memory.short_term.states()] == ["idle"],
        )
    assert not refusals


async def test_a_failure_of_a_loop_that_has_ended_meanwhile_hurts_nobody(tmp_path: Path) -> None:
    async def executor(instruction: CallLLM, loop: Loop) -> None:
        if loop.state.goal == "Fail.":
            await loop.emit(RunLoopCompleted())
            raise ValueError("too late")
        await _answer(instruction, loop)

    async with _agent(tmp_path, executor) as agent:
        assert types(await sent(agent, "Fail."))[-1] == "run_loop.completed"
        assert answer_of(await sent(agent, "Another matter.")) == "Fine."


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_a_tool_that_cancels_its_own_loop_is_told_why_that_cannot_be(
    tmp_path: Path, kind: str
) -> None:
    agents: list[Agent] = []

    async def cancel_own() -> str:
        (loop,) = agents[0].memory.short_term.get_active()
        try:
            await agents[0].cancel(loop.id)
        except ConflictError as error:
            return f"{error.detail} {error.advice}"
        return "cancelled"

    @tool(name="stop")
    async def stop() -> str:
        """Stop."""
        return await cancel_own()

    @tool(name="stop")
    def stop_in_thread() -> str:
        """Stop."""
        return anyio.from_thread.run(cancel_own)

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("stop")]

    with anyio.fail_after(20):
        own = stop if kind == "coroutine" else stop_in_thread
        async with running_agent(tmp_path, respond, own) as agent:
            agents.append(agent)
            events = await sent(agent, "Stop yourself.")
            tool_results = [e.body.content for e in events if e.body.type == "tool.finished"]
            assert "by its own work" in tool_results[0]
            assert "from outside" in tool_results[0]
            assert types(events)[-1] == "run_loop.idle"


async def test_work_that_is_closed_from_outside_its_task_is_no_failure_of_the_executor(
    tmp_path: Path,
) -> None:
    """As when an event loop is thrown away, and with it the coroutines that were under way."""
    at_work = anyio.Event()

    async def executor(instruction: CallLLM, loop: Loop) -> None:
        at_work.set()
        await asyncio.Future()

    async with running_agent(tmp_path) as agent:
        handle = LoopHandle(agent.memory, (await sent(agent, "Hello"))[0].run_loop_id)
        work = watched({"call_llm": executor})["call_llm"](CallLLM(()), handle)
        assert inspect.iscoroutine(work)
        task = asyncio.create_task(work)
        await at_work.wait()
        work.close()  # raises what comes out of it, but for `GeneratorExit`
        task.cancel()
        with pytest.raises(RuntimeError, match="already awaited"):
            await task
