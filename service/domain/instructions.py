"""Instructions: what the brain wants done next. Executors carry them out and emit events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.domain.errors import Problem
from service.domain.messages import ToolCall

LastAnswerReason = Literal["iterations", "failures", "repetition"]
"""Why no more tool calls are allowed: all steps are used up, too many calls in a row failed, or the
same call came to the same result again and again."""


@dataclass(frozen=True, slots=True)
class CallLLM:
    """Start an iteration and ask the model."""

    message_ids: tuple[str, ...] = ()
    """The messages that it is to see now."""
    last_answer: LastAnswerReason | None = None
    """Why this must be the last answer, without tools; None while tools are offered."""
    enhance: bool = False
    """Whether the model is asked to look over its answer and better it."""


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run these calls, side by side, each to its one result."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RequestHumanApprove:
    """Ask a person whether these calls may run."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RequestHumanPrompt:
    """Ask a person a question in words."""

    prompt: str
    call_id: str
    """The tool call by which the model asks, and which the answer becomes the result of."""


@dataclass(frozen=True, slots=True)
class RequestHumanSelect:
    """Ask a person to choose."""

    prompt: str
    options: tuple[str, ...]
    call_id: str
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class Compact:
    """Put something shorter in the place of the oldest rounds."""

    tokens: int
    """How long the next call would be, as far as is known."""
    limit: int
    """How long it may be."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Rest: everything that came in has been answered; or stop, where there is a problem."""

    problem: Problem | None = None


Question = RequestHumanPrompt | RequestHumanSelect
"""What a tool call asks of a person."""

Instruction = (
    CallLLM
    | CallTools
    | RequestHumanApprove
    | RequestHumanPrompt
    | RequestHumanSelect
    | Compact
    | Finish
)
InstructionKind = Literal[
    "call_llm",
    "call_tools",
    "request_human_approve",
    "request_human_prompt",
    "request_human_select",
    "compact",
    "finish",
]

KINDS: dict[type[Instruction], InstructionKind] = {
    CallLLM: "call_llm",
    CallTools: "call_tools",
    RequestHumanApprove: "request_human_approve",
    RequestHumanPrompt: "request_human_prompt",
    RequestHumanSelect: "request_human_select",
    Compact: "compact",
    Finish: "finish",
}
