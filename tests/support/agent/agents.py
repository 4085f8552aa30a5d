"""A model whose answers a test decides, and an agent around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, ToolCallDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMStatusError
from service.domain.history.events import Event
from service.domain.history.human_input import InputRequired
from service.llm.named_models import NamedModel
from service.llm.protocol import LLMStatus
from service.loop.brain import Limits
from service.memory.memory import Memory
from service.memory.protocol import Embedder
from service.tools.protocol import Tool
from service.tools.registry import ToolRegistry

Answer = str | Sequence[StreamPart | anyio.Event | Exception]
"""Words, or parts; a stream waits at an event, and breaks off at an exception."""
Respond = Callable[[Sequence[Message]], Answer]


class FunctionLLM:
    """Answers with what a function makes of the conversation; refuses to judge routes."""

    model = "function"
    context_tokens = 8192

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.calls: list[tuple[Message, ...]] = []
        self.offered: list[tuple[str, ...]] = []

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        if response_schema is not None:
            raise LLMStatusError(400, "no judgement here")
        self.calls.append(tuple(messages))
        self.offered.append(tuple(tool.name for tool in tools))
        answer = self.respond(messages)
        for part in [TextDelta(answer)] if isinstance(answer, str) else answer:
            if isinstance(part, anyio.Event):
                await part.wait()
            elif isinstance(part, Exception):
                raise part
            else:
                yield part

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        pass

    def status(self) -> LLMStatus:
        return LLMStatus(ready=True, detail="ready")

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def sending(
    agent: Agent, message: str, run_loop_id: str | None = None, **options: Any
) -> AsyncIterator[list[Event]]:
    """Send in the background; the events as they come, all of them at the end."""
    events: list[Event] = []

    async def collect() -> None:
        async for event in agent.send(message, run_loop_id, **options):
            events.append(event)  # noqa: PERF401  they are to be seen as they come

    async with anyio.create_task_group() as group:
        group.start_soon(collect)
        yield events


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to become true."""
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.002)


def call(name: str, arguments: str = "{}", *, index: int = 0) -> ToolCallDelta:
    return ToolCallDelta(index=index, id=f"c{index}", name=name, arguments=arguments)


def echo(messages: Sequence[Message]) -> Answer:
    return f"You said: {messages[-1].text}"


@asynccontextmanager
async def running_agent(
    folder: Path,
    respond: Respond | FunctionLLM = echo,
    *tools: Tool,
    embedder: Embedder | None = None,
    models: Mapping[str, NamedModel] | None = None,
    **options: Any,
) -> AsyncIterator[Agent]:
    registry = ToolRegistry()
    for tool in tools:
        registry.register(tool)
    llm = respond if isinstance(respond, FunctionLLM) else FunctionLLM(respond)
    named = {each.name for each in fields(Limits)}
    limits = Limits(**{name: options.pop(name) for name in list(options) if name in named})
    chosen = AgentOptions(**{"max_retries": 0, "limits": limits, **options})
    memory = Memory(folder, embedder)
    async with create_agent(llm, registry, memory, chosen, models=models) as agent:
        yield agent


async def sent(
    agent: Agent, message: str, run_loop_id: str | None = None, **options: Any
) -> list[Event]:
    """Send, and collect what came of it."""
    return [event async for event in agent.send(message, run_loop_id, **options)]


def types(events: Iterable[Event]) -> list[str]:
    return [event.type for event in events if event.seq is not None]


def answer_of(events: Iterable[Event]) -> str:
    said = [e.body.message.text for e in events if e.body.type == "message.completed"]
    return said[-1]


def request_of(events: Sequence[Event]) -> InputRequired:
    body = events[-1].body
    assert isinstance(body, InputRequired)
    return body
