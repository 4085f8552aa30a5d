"""A model that writes notes as it is told, and agents that ask it at once."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import Agent
from service.agent.consolidation.consolidation_worker import ConsolidationOptions
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, TokenUsage
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.history.events import RunLoopImported
from service.domain.run_loops import RunLoop
from service.memory.journal.imported_loops import Import
from tests.support.agent.agents import FunctionLLM, echo, running_agent, sent, until

AT_ONCE = ConsolidationOptions(
    idle_seconds=0.02, min_new_segments=1, max_tokens_per_day=10**6, first_pause=0.02
)
Write = Callable[[dict[int, str]], object]
"""Makes an answer of the passages: JSON values, text, an exception to raise, or an event to wait
for before there is nothing to note."""


class NotingLLM(FunctionLLM):
    """Echoes in conversations, and writes notes as it is told."""

    def __init__(self, write: Write) -> None:
        super().__init__(echo)
        self.write = write
        self.asked: list[dict[int, str]] = []
        """The passages of each request."""
        self.material: list[str] = []
        self.used = (100, 20)
        self.left = 0
        """How many requests ended before they were answered."""

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        if response_schema is None or "notes" not in response_schema["properties"]:
            async for part in super().stream(messages, response_schema=response_schema):
                yield part
            return
        self.material.append(messages[-1].text)
        numbered = re.compile(r"^\[(\d+)\] \S+ \w+: (.*)$", re.MULTILINE)
        passages = {int(number): text for number, text in numbered.findall(messages[-1].text)}
        self.asked.append(passages)
        answer = self.write(passages)
        if isinstance(answer, anyio.Event):
            try:
                await answer.wait()
            except BaseException:
                self.left += 1
                raise
            answer = []
        if isinstance(answer, Exception):
            raise answer
        words = answer if isinstance(answer, str) else json.dumps({"notes": answer})
        yield TextDelta(words)
        yield TokenUsage(self.model, *self.used)


def note(subject: str, *sentences: tuple[str, list[int]], kind: str = "person") -> dict[str, Any]:
    return {
        "kind": kind,
        "subject": subject,
        "sentences": [{"text": t, "passages": p, "replaces": []} for t, p in sentences],
    }


def facts(passages: dict[int, str]) -> list[dict[str, Any]]:
    """Each passage on somebody becomes a sentence about them."""
    return [
        note(re.split(r"[ 住]", text)[0], (text, [number]))
        for number, text in passages.items()
        if re.match("Ada|Bea|小明", text)
    ]


@asynccontextmanager
async def agent_with(
    folder: Path, llm: NotingLLM, options: ConsolidationOptions | None = AT_ONCE, **more: Any
) -> AsyncIterator[Agent]:
    async with running_agent(
        folder, llm, consolidation=options, linger_seconds=0, auto_classify=False, **more
    ) as agent:
        yield agent


async def remember(agent: Agent, *words: str, owner: str = "me") -> None:
    """Say things, each in a loop of its own, and wait until they are in long-term memory."""
    for each in words:
        await sent(agent, each, owner=owner)
    await until(lambda: not agent.memory.short_term.states())
    assert await agent.memory.archivist.drain() is None


async def archived(agent: Agent, loop: RunLoop) -> None:
    """Have a loop in long-term memory."""
    newest = agent.memory.long_term.notes.newest_segment
    before = newest()
    body = RunLoopImported(run_loop=loop, source="elsewhere")
    imported = Import(loop.id, body, body.model_dump_json())
    await agent.memory.append_imports([imported], owner=loop.owner)
    await until(lambda: newest() > before)


def texts(agent: Agent, owner: str = "me") -> list[str]:
    notes = agent.memory.long_term.notes.of(owner)
    return sorted(sentence.text for note in notes for sentence in note.sentences)


def all_read(agent: Agent, owner: str = "me") -> bool:
    return not agent.memory.long_term.notes.unread(owner, limit=1)
