"""Lets a model that knows no tool calls use tools: it answers in JSON, one action at a time.

A conversation is rendered so that its beginning is the same in every run loop (instructions, tools,
examples), and what differs (the caller's system message, the history) comes behind it. The server
keeps what it has read of a prompt, and reading is what takes the time: some 90 tokens a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from service.agent.llm.action_schema import ActionSchema, Schema
from service.agent.llm.demonstrations import demonstrations
from service.domain.messages import Message, ToolCall
from service.domain.tools import ToolDefinition

MOST_ROUNDS = 3
"""After so many tool results in a row only a reply is allowed: small models go round in circles."""

_INSTRUCTIONS = (
    "You are a personal assistant with a long memory. Answer in the user's language, briefly.\n\n"
    "You answer with one JSON object. It is either a reply to the user or a tool call.\n"
    "- {reply}(text): talk to the user: greet, chat, explain, write, translate, answer."
)
_FEW_TOOLS = 8
_LONG_DESCRIPTION = 160
_SHORT_DESCRIPTION = 60


class ToolAdapter:
    """The rendering of conversations for one set of tools."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        self.form = ActionSchema(tools)
        self._opening = [Message.system(self._instructions(tools)), *self._examples(tools)]

    def schema(self, *, may_call: bool) -> Schema:
        """What the answer must satisfy: a reply, or an action too."""
        return self.form.schema if may_call else self.form.reply_schema

    def conversation(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as the model shall see them."""
        return [*self._opening, *self._turns(messages)]

    def _instructions(self, tools: Sequence[ToolDefinition]) -> str:
        longest = _LONG_DESCRIPTION if len(tools) <= _FEW_TOOLS else _SHORT_DESCRIPTION
        lines = [_INSTRUCTIONS.format(reply=self.form.reply)]
        for tool in tools:
            parameters = ", ".join(self.form.parameters(tool.name))
            lines.append(f"- {tool.name}({parameters}): {_shortened(tool.description, longest)}")
        return "\n".join(lines)

    def _examples(self, tools: Sequence[ToolDefinition]) -> Iterator[Message]:
        for example in demonstrations([tool.name for tool in tools]):
            yield Message.user(example.said)
            if example.tool:
                yield Message.assistant(self._action(example.tool, dict(example.arguments)))
                if example.result:
                    yield Message.user(_result(example.tool, example.result))
            if example.reply:
                yield Message.assistant(self._reply(example.reply))

    def _turns(self, messages: Sequence[Message]) -> Iterator[Message]:
        names: dict[str, str] = {}
        results: list[str] = []
        for message in messages:
            if message.role == "tool":
                results.append(_result(names.get(message.tool_call_id or "", "tool"), message.text))
                continue
            if results:
                yield Message.user("\n\n".join(results))
                results = []
            if message.role == "assistant":
                names.update((call.id, call.name) for call in message.tool_calls)
                yield Message.assistant(self._answer(message))
            else:
                yield message
        if results:
            yield Message.user("\n\n".join(results))

    def _answer(self, message: Message) -> str:
        lines = [self._reply(message.text)] if message.text or not message.tool_calls else []
        lines += [self._action(call.name, _arguments(call)) for call in message.tool_calls]
        return "\n".join(lines)

    def _reply(self, text: str) -> str:
        return _json({"action": self.form.reply, "text": text})

    def _action(self, name: str, arguments: dict[str, object] | dict[str, str]) -> str:
        if name in self.form.nested:
            return _json({"action": name, "arguments": arguments})
        return _json({"action": name, **arguments})


def speaks_of_tools(messages: Sequence[Message]) -> bool:
    """Whether a conversation holds tool calls or results, so that it needs rendering."""
    return any(message.tool_calls or message.role == "tool" for message in messages)


def may_call_tools(messages: Sequence[Message]) -> bool:
    """Whether the model has not used tools too often since a person last spoke."""
    rounds = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        rounds += bool(message.tool_calls)
    return rounds < MOST_ROUNDS


def _result(name: str, content: str) -> str:
    return f"Result of {name}:\n{content}"


def _arguments(call: ToolCall) -> dict[str, object]:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shortened(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
