"""What a model is told of a tool, and what the loop must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

ToolEffect = Literal["read_only", "idempotent", "side_effects"]
"""What running a tool twice would do: nothing, the same, or something more."""

MEMORY_EXPAND = "memory_expand"
"""The tool that shows what stood around a piece, and with which words its run loop began."""
MEMORY_TOOLS = frozenset({"memory_search", MEMORY_EXPAND})
"""The tools whose results are pieces of long-term memory."""
REMEMBER = "remember"
"""The tool whose calls keep facts, see `RememberedFact`."""
READ_RESULT = "read_result"
"""The tool that gives the rest of an over-long result."""
TOOL_SEARCH = "tool_search"
"""The tool that finds others, where there are more than the model is told of."""
QUOTING_TOOLS = MEMORY_TOOLS | {READ_RESULT}
"""The tools whose results only repeat what is remembered where it was said."""


OutputStream = Literal["stdout", "stderr"]
"""To which of its streams a program writes."""


def _show_nobody(text: str, stream: OutputStream = "stdout") -> None:
    """Nobody watches."""


class ToolDefinition(BaseModel):
    """A tool as the model sees it."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, an object."""


class ShowOutput(Protocol):
    """Called with a piece of text, from any thread."""

    def __call__(self, text: str, stream: OutputStream = "stdout") -> None:
        """Show it. Does not block, and raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class ElicitedAnswer:
    """What a person said to a question that a tool had asked in the middle of a call."""

    kept: Mapping[str, Any]
    """JSON that the tool wanted to be given back."""
    answer: str | None
    """Of several that were chosen, each on a line. None: another question came first, and they are
    to be asked again."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom and for what a tool runs."""

    owner: str
    """On whose behalf."""
    run_loop_id: str
    """In which run loop."""
    idempotency_key: str
    """The same for every attempt of the same call, also after a crash."""
    approved: frozenset[str] | None = None
    """What a person has said yes to, by this call or for longer: names of tools, and after them
    what the tool narrows a yes down to, if it does. None where no yes is needed."""
    show_output: ShowOutput = _show_nobody
    """Shows those who watch what the tool writes while it runs. The model is given the result
    alone."""
    can_ask: bool = False
    """Whether the call can be broken off to ask the person, see `InputNeeded`."""
    elicited: ElicitedAnswer | None = None
    """Where it was, and goes on: what they said."""

    def covers(self, tool: str, scope: str) -> bool:
        """Whether a tool may run what it calls `scope`. For tools whose calls are about something
        that can change until the last moment, such as a script: what was looked at before the
        call began may be something else by now."""
        return self.approved is None or not self.approved.isdisjoint((tool, f"{tool} {scope}"))
