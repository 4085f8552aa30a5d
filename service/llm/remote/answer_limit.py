"""The end that every answer has to come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.conversation.stream_parts import (
    ResponseInfo,
    StreamPart,
    TextDelta,
    ThinkDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.errors import LLMStreamError

UNBOUNDED = 1_000_000
"""How many characters an answer may have where nobody has bounded its tokens."""
_LEAST = 65_536  # characters
_CHARACTERS_A_TOKEN = 16  # four, and four times that, so that no honest answer is cut


@dataclass(slots=True)
class AnswerBound:
    """Counts how long an answer has grown, and breaks off one that does not end."""

    model: str
    longest: int
    """How many characters the answer may have."""
    length: int = 0

    def add(self, parts: Sequence[StreamPart], *, held: int = 0) -> None:
        """Count the parts of one chunk. A chunk without any characters counts as one.

        Args:
            parts: what came.
            held: characters that came and are not among the parts yet.

        Raises:
            LLMStreamError: the answer is longer than it may be.
        """
        self.length += max(1, held + sum(map(_length, parts)))
        if self.length > self.longest:
            endless = LLMStreamError(
                f"{self.model} went on past {self.longest:,} characters, and was broken off",
                advice="The endpoint does not keep to RONDO_LLM__MAX_TOKENS: raise it for longer"
                " answers, or choose another model.",
            )
            endless.retryable = False  # once more would take as long, and cost as much
            raise endless


def longest_of(max_tokens: int) -> int:
    """How many characters an answer of so many tokens can have at the very most."""
    return max(max_tokens * _CHARACTERS_A_TOKEN, _LEAST)


def _length(part: StreamPart) -> int:
    match part:
        case TextDelta(text=text):
            return len(text)
        case ThinkDelta(think=think):
            return len(think)
        case ToolCallDelta(arguments=arguments):
            return len(arguments)
        case TokenUsage() | ResponseInfo():
            return 0
