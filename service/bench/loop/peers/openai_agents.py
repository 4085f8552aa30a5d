"""openai-agents: a runner with a model of its own class, untraced. It keeps nothing on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from service.bench.loop import bench_worker


async def probe(number: int) -> str:
    """Give the number back."""
    return str(number)


class Metronome(Model):  # type: ignore[misc]  # the library is not there when types are checked
    """Calls `probe` so many times, then answers in words."""

    def __init__(self, steps: int, began: Callable[[], None]) -> None:
        self._steps = steps
        self._began = began
        self._calls = 0

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Give the next call of the tool, or the answer."""
        self._began()
        await asyncio.sleep(0)
        self._calls += 1
        if self._calls <= self._steps:
            return ModelResponse(output=[_call(self._calls)], usage=Usage(), response_id=None)
        return ModelResponse(output=[_answer()], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> NoReturn:
        """Not used: the runner is not asked to stream."""
        raise NotImplementedError


def _call(number: int) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call",
        call_id=f"call_{number}",
        name="probe",
        arguments=f'{{"number": {number}}}',
    )


def _answer() -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
    return ResponseOutputMessage(
        id="answer", type="message", role="assistant", status="completed", content=[text]
    )


async def run_loop(steps: int, folder: Path, began: Callable[[], None]) -> None:
    """Run one loop to its answer."""
    agent = Agent(name="bench", model=Metronome(steps, began), tools=[function_tool(probe)])
    await Runner.run(agent, "Go.", max_turns=steps + 2)


if __name__ == "__main__":
    set_tracing_disabled(True)
    bench_worker.tell(bench_worker.measure(run_loop, *bench_worker.arguments()))
