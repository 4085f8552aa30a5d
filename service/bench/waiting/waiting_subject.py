"""A subject in which a run loop waits as a scene says: the agent, with a model by the book."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.bench.parameters import BenchmarkError
from service.bench.waiting.waiting_dataset import Scene
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, ToolCallDelta
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.history.events import Event
from service.llm.protocol import LLMStatus
from service.memory.memory import Memory
from service.memory.protocol import Embedder
from service.tools.builtins.ask_user import ask_user, choose
from service.tools.registry import ToolRegistry


class _ByTheBook:
    """A model that asks what each scene says, answers what its others are, and repeats all else."""

    model = "by the book"
    context_tokens = 100_000

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self._calls = {scene.goal: _calls(scene) for scene in scenes}
        self._answers = {asked: said for scene in scenes for asked, said in scene.others}

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        last = messages[-1]
        calls = self._calls.get(last.text, ()) if last.role == "user" else ()
        if not calls:
            yield TextDelta(self._answers.get(last.text, f"I have heard: {last.text}"))
        for index, (name, arguments) in enumerate(calls):
            yield ToolCallDelta(index=index, id=f"c{index}", name=name, arguments=arguments)

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """There is nothing to load."""

    def status(self) -> LLMStatus:
        """It is always ready."""
        return LLMStatus(ready=True, detail="ready")

    async def aclose(self) -> None:
        """There is nothing to close."""


class _Effect:
    """A tool that needs a yes, and does nothing."""

    effect: ToolEffect = "side_effects"
    needs_approval = True
    timeout_seconds = 10.0

    def __init__(self, name: str) -> None:
        self.definition = ToolDefinition(
            name=name, description="Does something.", parameters={"type": "object"}
        )

    async def run(self, arguments: str, context: ToolContext) -> str:
        """Only a yes leads here, and nobody says yes."""
        raise BenchmarkError(f"{self.definition.name} {arguments} has run without a yes")


@asynccontextmanager
async def subject(
    folder: Path, scenes: Sequence[Scene], embedder: Embedder | None
) -> AsyncGenerator[Agent]:
    """An agent that can be brought to wait as any of the scenes says."""
    tools = ToolRegistry()
    tools.register(ask_user)
    tools.register(choose)
    for name in sorted({name for scene in scenes for name, _ in scene.calls}):
        tools.register(_Effect(name))
    options = AgentOptions(recall_tokens=0)
    async with create_agent(_ByTheBook(scenes), tools, Memory(folder, embedder), options) as agent:
        await agent.memory.warmed_up()
        yield agent


async def waiting(agent: Agent, scene: Scene, owner: str) -> str:
    """Bring an owner's subject to wait as a scene says; the id of the loop that waits."""
    agent_options = {"owner": owner}
    for asked, _ in scene.others:
        await _opened(agent, asked, **agent_options)
    last = await _opened(agent, scene.goal, **agent_options)
    if last.type != "input.required":
        raise BenchmarkError(f"scene {scene.id} does not come to wait")
    return last.run_loop_id


async def _opened(agent: Agent, words: str, *, owner: str) -> Event:
    """A run loop of its own; the last event."""
    *_, last = [event async for event in agent.send(words, "new", owner=owner)]
    return last


def _calls(scene: Scene) -> tuple[tuple[str, str], ...]:
    if scene.kind == "approve":
        return tuple((name, json.dumps(given, ensure_ascii=False)) for name, given in scene.calls)
    given: dict[str, Any] = {"question": scene.asks}
    if scene.kind == "prompt":
        return (("ask_user", json.dumps(given, ensure_ascii=False)),)
    given |= {"options": scene.options, "multiple": scene.multiple}
    return (("choose", json.dumps(given, ensure_ascii=False)),)
