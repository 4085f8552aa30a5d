"""Asking the person: a question in words, or a choice.

These tools are never run: the loop waits for the person, for days if need be, and what they say is
the result of the call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field

from service.domain.conversation.instructions import (
    Question,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tools.arguments import read_arguments
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry
from service.tools.schema import parameters_schema

_log = logging.getLogger(__name__)


def question_of(registry: ToolRegistry, call: ToolCall) -> Question | None:
    """What a call asks of a person.

    None for a call that does something else, and for one whose arguments cannot be used: run, it
    comes to a failure that tells the model why.
    """
    asking = registry.asking(call.name)
    if asking is None:
        return None
    try:
        return asking.question(call)
    except ToolFailure:
        return None
    except Exception:  # noqa: BLE001 - a call that is not asked is answered by the tool itself
        _log.exception("What a call of %s asks cannot be told; it is not asked", call.name)
        return None


_LONGEST_QUESTION = 4_000
_LONGEST_OPTION = 500
_MOST_OPTIONS = 50

Words = Annotated[
    str, Field(max_length=_LONGEST_QUESTION, description="The question, in the user's language.")
]


class _AskArguments(BaseModel, extra="forbid"):
    question: Words


class _ChooseArguments(BaseModel, extra="forbid"):
    question: Words
    options: Annotated[
        list[Annotated[str, Field(max_length=_LONGEST_OPTION)]],
        Field(
            min_length=2,
            max_length=_MOST_OPTIONS,
            description="What can be chosen, each in a few words.",
        ),
    ]
    multiple: Annotated[bool, Field(description="Whether several can be chosen.")] = False


@dataclass(frozen=True, slots=True)
class QuestionTool:
    """A tool by which the model asks the person."""

    definition: ToolDefinition
    arguments: type[BaseModel]
    ask: Callable[[ToolCall, Mapping[str, Any]], Question]
    """Makes the question of the call and its arguments; raises `ToolFailure` where none is."""
    effect: ToolEffect = "read_only"
    needs_approval: bool = False
    timeout_seconds: float = 10

    def question(self, call: ToolCall) -> Question:
        """What a call asks.

        Raises:
            ToolFailure: the arguments cannot be used.
        """
        return self.ask(call, read_arguments(call.arguments, self.arguments, self.definition))

    def check(self, arguments: str) -> None:
        """See to it that arguments can be used.

        Raises:
            ToolFailure: they cannot; says why.
        """
        self.question(ToolCall(id="-", name=self.definition.name, arguments=arguments))

    async def run(self, arguments: str, context: ToolContext) -> str:
        """Say why the person was not asked.

        Raises:
            ToolFailure: always.
        """
        self.check(arguments)
        raise ToolFailure("Nobody could be asked here. Go on with what you know.")


def _ask(call: ToolCall, given: Mapping[str, Any]) -> Question:
    return RequestHumanPrompt(prompt=_question(given), call_id=call.id)


def _choose(call: ToolCall, given: Mapping[str, Any]) -> Question:
    options = tuple(dict.fromkeys(" ".join(option.split()) for option in given["options"]))
    if "" in options:
        raise ToolFailure("An option is empty. Give each of them words, and retry.")
    if len(options) < 2:
        raise ToolFailure("There are not two different options. Give more, or use `ask_user`.")
    return RequestHumanSelect(
        prompt=_question(given), options=options, call_id=call.id, multiple=given["multiple"]
    )


def _question(given: Mapping[str, Any]) -> str:
    question = str(given["question"]).strip()
    if not question:
        raise ToolFailure("The question is empty. Write what you want to know, and retry.")
    return question


ask_user = QuestionTool(
    definition=ToolDefinition(
        name="ask_user",
        description=(
            "Ask the user a question and wait for their answer. Only for what you cannot find out"
            " and cannot sensibly assume."
        ),
        parameters=parameters_schema(_AskArguments),
    ),
    arguments=_AskArguments,
    ask=_ask,
)
"""Asks a question that is answered in words."""

choose = QuestionTool(
    definition=ToolDefinition(
        name="choose",
        description=(
            "Let the user choose between options, and wait for their choice. Only where it is"
            " theirs to decide."
        ),
        parameters=parameters_schema(_ChooseArguments),
    ),
    arguments=_ChooseArguments,
    ask=_choose,
)
"""Asks for a choice."""
