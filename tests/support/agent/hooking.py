"""What the tests of hooks share: a tool, hooks that do not work, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.history.events import ErrorOccurred, Event, ToolFinished
from service.loop.hooks.hooks import Hooks
from service.tools.decorator import FunctionTool, tool
from tests.support.agent.agents import Answer, call


def calls_then_tells(messages: Sequence[Message]) -> Answer:
    if messages[-1].role == "tool":
        return f"The tool said: {messages[-1].text}"
    return [call("look")]


class Looks:
    """A tool that notes how often it ran."""

    def __init__(self, effect: ToolEffect = "side_effects") -> None:
        self.ran = 0

        @tool(effect=effect)
        async def look() -> str:
            """Look."""
            self.ran += 1
            return "a cat"

        self.tool: FunctionTool = look


def failures(events: Sequence[Event]) -> list[str]:
    """What went wrong with hooks, as the run loop tells it."""
    problems = [e.body.problem for e in events if isinstance(e.body, ErrorOccurred)]
    assert all(problem.kind == "hook" for problem in problems)
    return [problem.detail for problem in problems]


def results(events: Sequence[Event]) -> list[ToolFinished]:
    return [event.body for event in events if isinstance(event.body, ToolFinished)]


async def raises() -> None:
    raise ValueError("太糟糕了")


async def _leaves() -> None:
    raise SystemExit(3)


async def _hangs() -> None:
    await anyio.sleep_forever()


async def _waits_for_something_that_was_cancelled() -> None:
    task = asyncio.ensure_future(asyncio.sleep(30))
    task.cancel()
    await task


async def _gives_nothing() -> None:
    return None


MISHAPS: dict[str, Callable[[], Any]] = {
    "raises": raises,
    "leaves": _leaves,
    "hangs": _hangs,
    "is cancelled": _waits_for_something_that_was_cancelled,
    "gives the wrong thing": _gives_nothing,
    "is not async": lambda: None,
}


def broken(point: str, mishap: Callable[..., Any]) -> Hooks:
    """Hooks of which one does not work."""

    class Broken(Hooks):
        pass

    def method(self: Hooks, *arguments: object) -> object:
        return mishap()

    method.__name__ = point
    setattr(Broken, point, method)
    return Broken()


def impatient(hooks: Hooks) -> dict[str, Any]:
    """Options of an agent that does not wait long for its hooks."""
    return {"hooks": [hooks], "hook_timeout_seconds": 0.05}
