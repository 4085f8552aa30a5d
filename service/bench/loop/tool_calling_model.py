"""A model that calls a tool so many times and then answers: the same work for it at each call.

A scripted model looks through the conversation for what it is to answer, and so takes longer the
longer it is; this one is for measuring everything but the model.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, ToolCallDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.llm.protocol import LLMStatus
from service.tools.decorator import tool

ROOMY = 10_000_000
"""Tokens of its window: no history is too long for it, as none is for the peers."""


@tool(effect="read_only")
async def probe(number: int) -> str:
    """Give the number back."""
    return str(number)


class Metronome:
    """Calls `probe` `steps` times in each conversation, then answers in words.

    Satisfies `service.llm.protocol.LLM`. Conversations are told apart by their first words.
    """

    model = "metronome"
    context_tokens = ROOMY

    def __init__(self, steps: int, began: Callable[[str], None]) -> None:
        """`began` is called as each call begins, with the first words of its conversation."""
        self._steps = steps
        self._began = began
        self._calls: Counter[str] = Counter()

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Nothing is to be made ready."""

    def status(self) -> LLMStatus:
        """Always ready."""
        return LLMStatus(True, "answers at once")

    async def aclose(self) -> None:
        """Nothing is held."""

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Give the next call of the tool, or the answer."""
        words = messages[1].text  # the system message stands before them
        self._began(words)
        await asyncio.sleep(0)  # a real one lets others work while it waits for the network
        self._calls[words] += 1
        number = self._calls[words]
        if number <= self._steps:
            yield ToolCallDelta(
                index=0, id=f"call_{number}", name="probe", arguments=f'{{"number": {number}}}'
            )
        else:
            yield TextDelta("Done.")
