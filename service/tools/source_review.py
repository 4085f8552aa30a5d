"""What a person is told of a source of tools, and what they can say to its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from service.domain.conversation.tool_definitions import ToolDefinition

ChangeKind = Literal["new", "changed"]


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that says something else than what a person has accepted, and is held for that."""

    name: str
    """As the model would call it."""
    kind: ChangeKind
    before: ToolDefinition | None
    """What was accepted; None for a new one."""
    after: ToolDefinition


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source is."""

    name: str
    where: str
    """Its program or its address."""
    is_there: bool
    tools: int
    """How many are offered."""
    held: tuple[str, ...]
    """Names of tools that wait to be looked at."""
    words: str
    """In a sentence: how it is, and what to do."""


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """All that waits to be looked at."""

    changes: tuple[ToolChange, ...]
    digest: str
    """Of what the source says now: an acceptance names it, so that nothing is accepted that was
    not shown."""


@runtime_checkable
class ReviewedSource(Protocol):
    """A source of tools whose words count only once a person has accepted them."""

    @property
    def status(self) -> SourceStatus:
        """How it is now."""
        ...

    @property
    def changes(self) -> SourceChanges:
        """What waits to be looked at."""
        ...

    async def accept(self, digest: str) -> int:
        """Take what the source says now; how many tools were held.

        Raises:
            ConflictError: it says something else than what was looked at, or says nothing now.
            StorageError: that cannot be kept.
        """
        ...
