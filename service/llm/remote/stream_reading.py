"""What a client needs of whatever reads its provider's stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from service.domain.conversation.messages import FinishReason
from service.domain.conversation.stream_parts import StreamPart

Ending = Literal["stop", "length", "window", "withheld", "error"]
"""How an endpoint says that it ended an answer: it was done, ``max_tokens`` were used up, the
window was full, a filter or the model itself refused, or it failed."""

FINISH_REASONS: Mapping[Ending, FinishReason] = {
    "length": "length",
    "window": "length",
    "withheld": "content_filter",
}
"""The endings of answers that are not whole, in the field's words."""


class Reader(Protocol):
    """Turns the decoded events of one stream into stream parts."""

    ending: Ending | None
    """As the endpoint said it; None until it did."""
    has_content: bool
    """Whether there was a visible letter or a tool call."""
    chunks: int
    """How many events there were."""

    def read(self, chunk: object) -> list[StreamPart]:
        """The parts of one event.

        Raises:
            LLMStreamError: it is not of the expected form, or the answer does not end.
        """
        ...

    def finish(self) -> list[StreamPart]:
        """What was held back; called once the stream has ended.

        Raises:
            LLMStreamError: something was left open.
        """
        ...
