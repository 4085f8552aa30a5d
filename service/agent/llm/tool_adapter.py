"""Lets a model that knows no tool calls use tools: it answers in JSON, one action at a time.

A conversation is rendered so that its beginning is the same in every run loop: the caller's system
message, tools, examples. The server keeps what it has read of a prompt, and reading is what takes
the time: some 90 tokens a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from service.agent.llm.action_schema import ActionSchema, Schema
from service.agent.llm.demonstrations import demonstrations
from service.domain.messages import Message, ToolCall
from service.domain.tools import MEMORY_TOOLS, ToolDefinition

MOST_ROUNDS = 3
"""After so many rounds of tool calls only a reply is allowed: small models go round in circles."""

_INSTRUCTIONS = (
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
        self._preface = self._instructions(tools)
        self._shown = list(self._examples(tools))

    def schema(self, messages: Sequence[Message]) -> Schema:
        """What the next answer must satisfy: a reply, or an action too.

        A tool that has just given its result is left out, and after `MOST_ROUNDS` all of them are:
        a small model would call it again rather than speak of what it gave. The tools of memory
        are left out of the first answer: memory was looked through when the conversation began,
        what it knows of the matter stands beside the question, and a small model takes whatever
        a second search gives for the answer.
        """
        rounds = _rounds(messages)
        if len(rounds) >= MOST_ROUNDS:
            return self.form.reply_schema
        left_out = set(rounds[0]) if rounds else set()
        asked = [message for message in messages if message.role == "user"]
        if len(asked) == 1 or any(message.notes for message in asked[-1:]):
            left_out |= MEMORY_TOOLS
        return self.form.schema_without(left_out)

    def conversation(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as the model shall see them.

        The caller's system message comes first, before the form of the answers: put behind the
        examples, a small model recites it.
        """
        system = [message.text for message in messages[:1] if message.role == "system"]
        opening = Message.system("\n\n".join((*system, self._preface)))
        return [opening, *self._shown, *self._turns(messages[len(system) :])]

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
        words = "\n\n".join(filter(None, (message.text, message.notes)))
        lines = [self._reply(words)] if words or not message.tool_calls else []
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


def _rounds(messages: Sequence[Message]) -> list[set[str]]:
    """Names of the tools that were called since a person spoke last, round by round, newest first.

    >>> call = ToolCall(id="c", name="search")
    >>> _rounds([Message.user("Hi"), Message.assistant("", (call,))])
    [{'search'}]
    """
    rounds: list[set[str]] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        if message.tool_calls:
            rounds.append({call.name for call in message.tool_calls})
    return rounds


def _result(name: str, content: str) -> str:
    return f"Result of {name}:\n{content}\n\n(Tell the user.)"


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
