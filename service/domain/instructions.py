"""Instructions: what the brain wants done next. Executors carry them out and yield events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.domain.messages import ToolCall


@dataclass(frozen=True, slots=True)
class CallLLM:
    """Start an iteration and ask the model."""

    offer_tools: bool = True
    """False for the last answer, when no more tool calls are allowed."""


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run these calls, side by side, each to its one result."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RequestHumanApprove:
    """Ask a person whether these calls may run."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """Rest: everything that came in has been answered."""


Instruction = CallLLM | CallTools | RequestHumanApprove | Finish
InstructionKind = Literal["call_llm", "call_tools", "request_human_approve", "finish"]

KINDS: dict[type[Instruction], InstructionKind] = {
    CallLLM: "call_llm",
    CallTools: "call_tools",
    RequestHumanApprove: "request_human_approve",
    Finish: "finish",
}
