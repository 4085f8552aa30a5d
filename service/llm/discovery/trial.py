"""Trying a model: one real call, and one with a tool, as run loops will make them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from service.config import LLMSettings, Settings
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import MessageAssembler
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMError, LLMTimeoutError
from service.llm.factory import LLM, create_llm

SECONDS = 120.0
"""How long each of the two calls may take: a large model is loaded by the first."""
_GREETING = "Say hello to me in one short sentence."
_QUESTION = "What is the weather in Lisbon now? Use the tool."
_TOOL = ToolDefinition(
    name="current_weather",
    description="The weather in a city now.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it. A model that did not answer has raised instead."""

    words: str
    """What it said."""
    seconds: float
    """Until it had said it."""
    calls_tools: bool
    """Whether it called the tool that it was offered."""
    without_tools: str = ""
    """Why it did not, where the endpoint has refused the call."""


async def try_model(settings: Settings, llm: LLMSettings) -> Trial:
    """Call a model with these settings.

    Raises:
        LLMError: it does not answer; says why, and what to do.
        RondoError: no client can be made of these settings.
    """
    bounded = llm.model_copy(update={"max_call_seconds": min(llm.max_call_seconds, SECONDS)})
    model = create_llm(settings, bounded)
    began = time.monotonic()
    try:
        said = (await _answer(model, _GREETING)).text
        seconds = time.monotonic() - began
        try:
            called = (await _answer(model, _QUESTION, tools=(_TOOL,))).tool_calls
        except LLMTimeoutError:
            raise
        except LLMError as error:
            return Trial(said, seconds, calls_tools=False, without_tools=error.detail)
        return Trial(said, seconds, any(call.name == _TOOL.name for call in called))
    finally:
        await model.aclose()


async def _answer(model: LLM, words: str, *, tools: Sequence[ToolDefinition] = ()) -> Message:
    # With no bound of tokens but what is set, as run loops have it: models that think need many
    # before the first word, and some servers refuse more than fits into their window.
    assembler = MessageAssembler()
    async for part in model.stream((Message.user(words),), tools=tools):
        assembler.add(part)
    return assembler.message()
