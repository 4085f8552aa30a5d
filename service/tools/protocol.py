"""What the house asks of a tool."""

from __future__ import annotations

from typing import Protocol

from service.domain.tools import ToolContext, ToolDefinition, ToolEffect


class Tool(Protocol):
    """Something that the assistant can do."""

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        ...

    @property
    def effect(self) -> ToolEffect:
        """What running it twice would do. Only ``read_only`` and ``idempotent`` tools run again
        after a crash."""
        ...

    @property
    def needs_approval(self) -> bool:
        """Whether a person must agree to each call."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        ...

    async def run(self, arguments: str, context: ToolContext) -> str:
        """Run once with the arguments as the model wrote them (JSON, perhaps invalid).

        Raises:
            ToolFailure: with words that the model can act on. The registry turns every other
                exception into a result too, so that nothing is ever raised into the loop.
        """
        ...


class ToolFailure(Exception):
    """A call did not succeed; the text tells the model why and what to do."""
