"""Instructions: what the brain wants done next. Executors carry them out and emit events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from service.domain.conversation.messages import ToolCall
from service.domain.errors import Problem

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
    continues: bool = False
    """Whether it is asked to go on with its answer, whose tokens were used up."""


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
    call_id: str | None = None
    """The tool call that the answer becomes the result of; None: the answer is what the person says
    next."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON that goes with the question, for whoever shows it."""

    def __post_init__(self) -> None:
        """Refuse what could not be asked.

        Raises:
            ValueError: the question is empty, or the metadata is no JSON object.
        """
        _check_question(self.prompt, self.call_id, self.metadata)


@dataclass(frozen=True, slots=True)
class RequestHumanSelect:
    """Ask a person to choose."""

    prompt: str
    options: tuple[str, ...]
    call_id: str | None = None
    """As for a question in words."""
    multiple: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """As for a question in words."""

    def __post_init__(self) -> None:
        """Refuse what could not be asked.

        Raises:
            ValueError: as for a question in words; or the options are not different words.
        """
        _check_question(self.prompt, self.call_id, self.metadata)
        options = self.options
        if not isinstance(options, tuple) or not all(map(_is_words, options)):
            raise ValueError(f"options are a tuple of words, not {options!r:.200}")
        if not options or len(set(options)) != len(options):
            raise ValueError(f"there must be options, each another one: {options!r:.200}")


@dataclass(frozen=True, slots=True)
class Compact:
    """Put something shorter in the place of the oldest rounds."""

    tokens: int | None = None
    """How long the next call would be, as far as is known; None: as the executor finds."""
    limit: int | None = None
    """How long it may be; None: as short as it can be made."""


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


def _check_question(prompt: object, call_id: object, metadata: object) -> None:
    if not _is_words(prompt):
        raise ValueError(f"a question has words, not {prompt!r:.200}")
    if not (call_id is None or _is_words(call_id)):
        raise ValueError(f"call_id is the id of a tool call, or None, not {call_id!r:.200}")
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata is an object of JSON, not {metadata!r:.200}")
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        text.encode()
        is_json = json.loads(text) == dict(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata cannot be written as JSON: {error}") from error
    if not is_json:
        raise ValueError("metadata is not the same when it is read back: use plain JSON values")


def _is_words(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
