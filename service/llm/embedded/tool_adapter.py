"""Lets a model that knows no tool calls use tools: it is asked apart which one a message needs.

A small model that is to answer and to call in one form answers worse: the form cramps what it says,
it reaches for tools that nobody needs, and examples of the form leak into its answers. So there are
two questions. Whether a tool is needed, and with which arguments, it is asked by itself, with
examples, and held to a schema; its answer it gives in plain words, to the conversation alone, in
which the tools' results stand beside the question.

Both prompts begin alike in every run loop. The server keeps what it has read of a prompt, and
reading is what takes the time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from service.domain.conversation.messages import Message
from service.domain.conversation.quoting import quoted
from service.domain.conversation.stream_parts import ToolCallDelta
from service.domain.conversation.tool_definitions import MEMORY_TOOLS, ToolDefinition
from service.domain.ids import new_id
from service.llm.embedded.action_schema import ActionSchema, Schema
from service.llm.embedded.demonstrations import demonstrations

_INSTRUCTIONS = (
    "Choose what the answer to the last message needs. Answer with one JSON object.\n"
    "- {none}: words are enough: talk, facts, writing, translating, summing up, advice, questions"
    " about the user\n"
)
_FEW_TOOLS = 8
_LONG_DESCRIPTION = 120
_SHORT_DESCRIPTION = 60
_LONGEST_ASIDE = 200
_NO_BRACKETS = str.maketrans("()", "[]")
"""In an aside, so that nothing in it ends it."""
_SHOWN_OF_A_TURN = 200
"""Characters: what was said before is shown as far as a follow-up needs it."""


class ToolChoice:
    """The question which of some tools a message needs."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        # Memory was looked through when the message came, and what it knows stands beside it: a
        # small model takes whatever a second search gives for the answer.
        offered = [tool for tool in tools if tool.name not in MEMORY_TOOLS]
        self._form = ActionSchema(offered)
        self._has_tools = bool(offered)
        self.opening = (self._instructions(offered), *self._examples(offered))
        """How every question begins."""

    @property
    def schema(self) -> Schema:
        """What the answer must satisfy."""
        return self._form.schema

    def is_open(self, messages: Sequence[Message]) -> bool:
        """Whether the question is to be asked now: a person has just said something.

        After a tool's result it is not: a small model would go round in circles.
        """
        return self._has_tools and messages[-1].role == "user" and bool(messages[-1].text.strip())

    def question(self, messages: Sequence[Message]) -> list[Message]:
        """What the model is asked."""
        said = messages[-1].text.strip()
        before = [each.text for each in messages[-3:-1] if each.role != "system" and each.text]
        if before:
            shown = " — ".join(_shortened(text, _SHOWN_OF_A_TURN) for text in before)
            said = f"(Before: {shown})\n{said}"
        return [*self.opening, Message.user(said)]

    def call_in(self, answer: str) -> ToolCallDelta | None:
        """The call that was chosen; None where none was, or where the answer was cut off."""
        try:
            chosen = json.loads(answer, strict=False)
            name = str(chosen.pop("action"))
        except (ValueError, AttributeError, KeyError, TypeError):
            return None
        if name == self._form.none:
            return None
        arguments = chosen.get("arguments", {}) if name in self._form.nested else chosen
        text = json.dumps(arguments, ensure_ascii=False)
        return ToolCallDelta(0, id=f"call_{new_id()}", name=name, arguments=text)

    def _instructions(self, tools: Sequence[ToolDefinition]) -> Message:
        longest = _LONG_DESCRIPTION if len(tools) <= _FEW_TOOLS else _SHORT_DESCRIPTION
        lines = [_INSTRUCTIONS.format(none=self._form.none).rstrip()]
        for tool in tools:
            parameters = ", ".join(self._form.parameters(tool.name))
            lines.append(f"- {tool.name}({parameters}): {_shortened(tool.description, longest)}")
        return Message.system("\n".join(lines))

    def _examples(self, tools: Sequence[ToolDefinition]) -> Iterator[Message]:
        for example in demonstrations([tool.name for tool in tools]):
            chosen: dict[str, object] = {"action": example.tool or self._form.none}
            if example.tool in self._form.nested:
                chosen["arguments"] = dict(example.arguments)
            else:
                chosen |= dict(example.arguments)
            yield Message.user(example.said)
            yield Message.assistant(_json(chosen))


def plain(messages: Sequence[Message]) -> list[Message]:
    """The conversation without calls: what tools gave stands beside what a person said, as a quote,
    so that nothing in it can pose as them.

    >>> call = ToolCallDelta(0, id="c", name="clock", arguments="{}")
    >>> from service.domain.conversation.messages import ToolCall, ToolResult
    >>> asked = Message.assistant("", (ToolCall(id="c", name="clock"),))
    >>> told = Message.tool(ToolResult(id="c", content="12:00"))
    >>> [each.text for each in plain([Message.user("What time is it?"), asked, told])]
    ['What time is it?\\n\\n(clock: 12:00)']
    """
    rendered: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if message.role == "tool":
            name = names.get(message.tool_call_id or "", "")
            told = _told(name, message.told_result)
            if rendered and rendered[-1].role == "user":
                told = f"{_whole(rendered.pop())}\n\n{told}"
            rendered.append(Message.user(told))
        elif message.role != "assistant" or not message.tool_calls:
            rendered.append(message)
        elif words := _whole(message):
            rendered.append(Message.assistant(words))
    return rendered


def _told(name: str, result: str) -> str:
    """A short result as an aside, which small models heed best; a long one as a quote."""
    line = result.strip()
    if len(line) > _LONGEST_ASIDE or len(line.splitlines()) > 1:
        return f"The tool {name} says:\n{quoted(result)}"
    return f"({name}: {line.translate(_NO_BRACKETS)})"


def _whole(message: Message) -> str:
    return "\n\n".join(filter(None, (message.notes, message.text)))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shortened(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
