"""A model that makes another one unreliable, in a way that can be repeated."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, ToolCallDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMStatusError, LLMStreamError
from service.llm.protocol import LLM, LLMStatus

_LATEST_CUT = 8
"""A cut comes before so many parts have passed, so that short answers are cut too."""


class ChaosLLM:
    """Passes calls on, and sometimes spoils them. Satisfies `service.llm.protocol.LLM`.

    What happens to a call follows from the seed, from the conversation, and from how often the same
    conversation was asked before: neither from the clock, nor from what runs beside it.
    """

    def __init__(
        self,
        inner: LLM,
        *,
        seed: int,
        refused: float = 0.0,
        cut: float = 0.0,
        corrupted: float = 0.0,
        delayed: float = 0.0,
        retry_after: float = 0.01,
        delay_seconds: float = 0.01,
    ) -> None:
        """Choose how bad it gets. Rates are shares of calls, 0 to 1.

        Args:
            inner: who really answers.
            seed: same seed, same trouble.
            refused: answered with status 429 and `retry_after` seconds.
            cut: the stream breaks off in the middle.
            corrupted: the arguments of tool calls are not JSON.
            delayed: `delay_seconds` pass before the first part.
            retry_after: seconds that refused callers are told to wait.
            delay_seconds: length of a delay.
        """
        self._inner = inner
        self._seed = seed
        self._refused, self._cut, self._corrupted, self._delayed = refused, cut, corrupted, delayed
        self._retry_after = retry_after
        self._delay_seconds = delay_seconds
        self._asked: Counter[tuple[int, str]] = Counter()

    @property
    def model(self) -> str:
        """The inner model's name."""
        return self._inner.model

    @property
    def context_tokens(self) -> int:
        """The inner model's window."""
        return self._inner.context_tokens

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Get the inner model ready."""
        await self._inner.warm_up(openings, tools=tools)

    def status(self) -> LLMStatus:
        """The inner model's status."""
        return self._inner.status()

    async def aclose(self) -> None:
        """Close the inner model."""
        await self._inner.aclose()

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Stream the inner model's answer, or spoil it (see the protocol).

        Raises:
            LLMStatusError: refused on purpose.
            LLMStreamError: cut on purpose.
            LLMError: whatever the inner model raises.
        """
        dice = self._dice(messages)
        # All dice are thrown at once: what a rate decides does not shift the others.
        refused, cut, corrupted, delayed = (dice.random() for _ in range(4))
        cut_at = dice.randrange(_LATEST_CUT) if cut < self._cut else None
        if delayed < self._delayed:
            await anyio.sleep(self._delay_seconds)
        if refused < self._refused:
            raise LLMStatusError(429, "refused by chaos", retry_after=self._retry_after)
        answer = self._inner.stream(
            messages,
            tools=tools,
            response_schema=response_schema,
            max_tokens=max_tokens,
            temperature=temperature,
        )
        passed = 0
        async with aclosing(cast("AsyncGenerator[StreamPart]", answer)):
            async for part in answer:
                if passed == cut_at:
                    break
                passed += 1
                if (
                    isinstance(part, ToolCallDelta)
                    and part.arguments
                    and corrupted < self._corrupted
                ):
                    yield replace(part, arguments=_corrupt(part.arguments, dice))
                else:
                    yield part
        if cut_at is not None:
            raise LLMStreamError("cut by chaos")

    def _dice(self, messages: Sequence[Message]) -> random.Random:
        conversation = (len(messages), messages[-1].text if messages else "")
        attempt = self._asked[conversation]
        self._asked[conversation] += 1
        return random.Random(f"{self._seed} {conversation} {attempt}")


def _corrupt(arguments: str, dice: random.Random) -> str:
    """The text with a stray letter in it that no JSON allows there."""
    at = dice.randrange(len(arguments) + 1)
    return f"{arguments[:at]}\x00{arguments[at:]}"
