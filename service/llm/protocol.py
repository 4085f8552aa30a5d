"""What Rondo asks of a language model, and what not every model can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from service.domain.conversation.messages import ContentPart, ImageUrlPart, Message, TextPart
from service.domain.conversation.stream_parts import StreamPart
from service.domain.conversation.tool_definitions import ToolDefinition
from service.models.fetch import PullProgress


@dataclass(frozen=True, slots=True)
class LLMStatus:
    """Whether a model can answer now, in words for `rondo doctor` and ``/readyz``."""

    ready: bool
    detail: str
    progress: PullProgress | None = None
    """How far its weights have come, while they are being fetched."""


class LLM(Protocol):
    """A language model that streams its answers.

    Implementations MUST NOT block the event loop, MUST raise nothing but `LLMError`s (and
    cancellation) from `stream`, and MUST raise one when the stream ends early, is empty, or holds
    no words and no tool call. They do not retry: the caller does.
    """

    @property
    def model(self) -> str:
        """The model's name, as reported in usage events."""
        ...

    @property
    def context_tokens(self) -> int:
        """How many tokens a call may hold, prompt and answer together."""
        ...

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        """Stream the answer to a conversation.

        A `ResponseInfo` among the parts tells why the answer is not whole, and under which id the
        provider knows it.

        Args:
            messages: the conversation; a system message comes first, if at all.
            tools: what the model may call.
            response_schema: JSON Schema that the answer's text must satisfy; not together with
                `tools`.
            max_tokens: bound of the answer; None for the client's default.
            temperature: None for the client's default.

        Raises:
            LLMError: the call failed; `retryable` says whether it can be made again.
        """
        ...

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Get ready, so that the first answer does not wait for it.

        Args:
            openings: how conversations begin; a local model reads them now.
            tools: what will be offered.

        Raises:
            LLMError: it cannot be made ready; `status` says why.
        """
        ...

    def status(self) -> LLMStatus:
        """Whether the model can answer now. Does no I/O."""
        ...

    async def aclose(self) -> None:
        """Release what the client holds."""
        ...


Size = Literal["tiny", "small", "large"]

_SMALL_FROM, _LARGE_FROM = 1e9, 4e9
UNSEEN = "[an image that you cannot see]"


def takes_images(llm: LLM) -> bool:
    """Whether a model is shown images. One that does not tell, by a ``takes_images``, is."""
    return bool(getattr(llm, "takes_images", True))


def is_free(llm: LLM) -> bool:
    """Whether a model's calls cost no money. One that does not tell, by ``is_free``, may cost."""
    return bool(getattr(llm, "is_free", False))


def most_output_tokens(llm: LLM, max_tokens: int | None) -> int | None:
    """How many tokens an answer can have at the very most, thinking included.

    A model tells it by a method ``most_output_tokens``; one that does not keeps to the bound of the
    call.

    Args:
        llm: the model.
        max_tokens: the bound that the call gives, if it does.

    Returns:
        None where nothing bounds it.
    """
    ask: Callable[[int | None], int | None] | None = getattr(llm, "most_output_tokens", None)
    return max_tokens if ask is None else ask(max_tokens)


def size_of(llm: LLM) -> Size:
    """How much a model can be told. One that does not tell how many ``parameters`` it has can be
    told everything.

    One that is not large must go on from the beginning of its answer where the assistant's own
    words come last in the conversation, and begin its answer with it.
    """
    parameters = getattr(llm, "parameters", None)
    if parameters is None or parameters >= _LARGE_FROM:
        return "large"
    return "small" if parameters >= _SMALL_FROM else "tiny"


def without_images(messages: Sequence[Message]) -> list[Message]:
    """The conversation with words in the place of each image."""
    return [_told(message) if message.images else message for message in messages]


def _told(message: Message) -> Message:
    parts: list[ContentPart] = [
        TextPart(text=UNSEEN) if isinstance(part, ImageUrlPart) else part
        for part in message.content
    ]
    # Not `model_copy`, which would take over the cached size.
    return Message(role=message.role, content=tuple(parts))
