"""What a model is told of a tool, and what the loop must know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

ToolEffect = Literal["read_only", "idempotent", "side_effects"]
"""What running a tool twice would do: nothing, the same, or something more."""

MEMORY_TOOLS = frozenset({"memory_search", "memory_expand"})
"""The tools whose results are pieces of long-term memory."""


class ToolDefinition(BaseModel):
    """A tool as the model sees it."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, an object."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom and for what a tool runs."""

    owner: str
    run_loop_id: str
    idempotency_key: str
    """The same for every attempt of the same call, also after a crash."""
