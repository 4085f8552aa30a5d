"""pydantic-ai: an agent with a function as its model. It keeps nothing on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from service.bench.loop import bench_worker


async def probe(number: int) -> str:
    """Give the number back."""
    return str(number)


async def run_loop(steps: int, folder: Path, began: Callable[[], None]) -> None:
    """Run one loop to its answer."""
    calls = 0

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal calls
        began()
        await asyncio.sleep(0)
        calls += 1
        if calls <= steps:
            return ModelResponse(parts=[ToolCallPart("probe", {"number": calls})])
        return ModelResponse(parts=[TextPart("Done.")])

    agent = Agent(FunctionModel(answer))
    agent.tool_plain(probe)
    await agent.run("Go.", usage_limits=UsageLimits(request_limit=None))


if __name__ == "__main__":
    bench_worker.tell(bench_worker.measure(run_loop, *bench_worker.arguments()))
