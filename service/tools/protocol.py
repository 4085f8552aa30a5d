"""What Rondo asks of a tool, and how a tool tells that it was cancelled from what it waited for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import anyio
from pydantic import JsonValue

from service.domain.conversation.instructions import Question
from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.run_loops import RunLoop


def current_task() -> asyncio.Task[Any] | None:
    """The task that runs now; None also where no event loop runs."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def caller_is_cancelled() -> bool:
    """Whether a `CancelledError` that arrived means this task: by anyio's scopes, or asyncio's."""
    task = asyncio.current_task()
    return anyio.current_effective_deadline() == -math.inf or (
        task is not None and task.cancelling() > 0
    )


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


@runtime_checkable
class AsksPerson(Protocol):
    """A tool that a person carries out: its calls are put to them, and their answer is the result.

    `Tool.run` is called only for a call that cannot be put to anybody, and says why.
    """

    def question(self, call: ToolCall) -> Question:
        """What a call asks.

        Raises:
            ToolFailure: the arguments cannot be used.
        """
        ...


@runtime_checkable
class ChecksArguments(Protocol):
    """A tool that can tell whether it would take some arguments, without running."""

    def check(self, arguments: str) -> None:
        """See to it that arguments (JSON) can be used.

        Raises:
            ToolFailure: they cannot; says why.
        """
        ...


@runtime_checkable
class ComesAndGoes(Protocol):
    """A tool that the model is not offered at all times."""

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now, and what to do about it; None when it is. Asked
        before each of the model's calls, and MUST NOT raise."""
        ...


@runtime_checkable
class LimitsOutput(Protocol):
    """A tool that says how much of a result a model is given."""

    @property
    def output_limit(self) -> int | None:
        """In characters; None for the registry's."""
        ...


@runtime_checkable
class BringsOutsideText(Protocol):
    """A tool that says whether its results hold words of others, such as pages of the web."""

    @property
    def outside(self) -> bool:
        """Whether the model is given its results as quotes, which give no instructions."""
        ...


@runtime_checkable
class ScopesApproval(Protocol):
    """A tool for which a remembered yes covers less than all of its calls."""

    def approval_scope(self, arguments: str) -> str | None:
        """What a yes to a call with these arguments covers; None: every call of the tool.

        Whenever the same text is given again, a remembered yes holds: it has to name all that a
        person relies on, such as the content of what is run.

        Raises:
            ToolFailure: that cannot be told; then nothing is remembered, and a person is asked.
        """
        ...


@runtime_checkable
class WarnsPerson(Protocol):
    """A tool of which a person has to know something before they say yes to a call."""

    @property
    def warning(self) -> str | None:
        """In a sentence; None where there is nothing to know. MUST NOT raise."""
        ...


@dataclass(frozen=True, slots=True)
class CallPreview:
    """What a call would do, as a person is shown it before they say yes."""

    scope: str
    """What a yes to just this covers, as `ScopesApproval.approval_scope` names it."""
    text: str
    """In lines; bounded, and what is cut is said in it."""


@runtime_checkable
class PreviewsCalls(ScopesApproval, Protocol):
    """A tool that can show what a call would do, without doing it.

    A call for which it fails could not be carried out: nobody is asked, the failure is its result.
    """

    def preview(self, arguments: str) -> CallPreview:
        """What a call with these arguments would do now. Blocks.

        Raises:
            ToolFailure: it cannot be carried out; says why.
        """
        ...


@runtime_checkable
class DescribesCall(Protocol):
    """A tool that can tell a person in words what a call comes to, before they say yes to it.

    A call for which it fails could not be carried out: nobody is asked, the failure is its result.
    """

    def call_in_words(self, arguments: str, run_loop: RunLoop) -> str | None:
        """What a call with these arguments does, in words; None where that cannot be told. MUST
        NOT block.

        Args:
            arguments: as the model wrote them.
            run_loop: in which it is called.

        Raises:
            ToolFailure: it cannot be carried out; says why.
        """
        ...


class ToolSource(Protocol):
    """What brings tools to a registry while the agent is at work, and withholds them again."""

    @property
    def prefix(self) -> str:
        """What the names of all its tools begin with."""
        ...

    @property
    def brought(self) -> anyio.Event:
        """Set once it has brought tools for the first time."""
        ...

    async def keep(self) -> None:
        """Bring them, until cancelled. MUST NOT raise."""
        ...


class ToolFailure(Exception):
    """A call did not succeed; the text tells the model why and what to do."""


class InputNeeded(Exception):
    """A call cannot go on before the person has answered: raised by `Tool.run`, where
    `ToolContext.can_ask`. The tool is run again with their answer, also after a restart."""

    def __init__(self, question: Question, kept: Mapping[str, JsonValue]) -> None:
        """Ask.

        Args:
            question: to the person.
            kept: what the tool is given back with the answer.
        """
        super().__init__("a person has to be asked")
        self.question = question
        self.kept = kept


class NoOutcome(ToolFailure):
    """No tool has said anything: the call could not be run, or was given up. The words are Rondo's
    own, for the model, and no memory."""
