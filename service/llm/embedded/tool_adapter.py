"""Lets a model that knows no tool calls use tools: it is asked apart which one a message needs.

A small model that is to answer and to call in one form answers worse: the form cramps what it says,
it reaches for tools that nobody needs, and examples of the form leak into its answers. So there are
two questions. Whether a tool is needed, and with which arguments, it is asked by itself, with
examples of the tools that are offered, and held to a schema; its answer it gives in plain words, to
the conversation alone, in which the tools' results stand beside the question. Examples never stand
before an answer: what a small model is shown leaks into what it says.

Both prompts begin alike in every run loop. The server keeps what it has read of a prompt, and
reading is what takes the time.

The engine that holds a small model to a schema knows only a part of JSON Schema, and a small model
is helped by few choices. So only what shapes a value is kept, and of a tool with required
parameters only these are offered.

>>> tool = ToolDefinition(name="now", description="", parameters={"type": "object"})
>>> [shape["properties"]["action"] for shape in ActionSchema([tool]).schema["anyOf"]]
[{'const': 'none'}, {'const': 'now'}]
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import ToolCallDelta
from service.domain.conversation.tool_definitions import MEMORY_TOOLS, ToolDefinition
from service.domain.ids import new_id
from service.domain.text import quoted


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A message, and the tool that its answer needs."""

    said: str
    tool: str = ""
    """Empty: none."""
    arguments: tuple[tuple[str, str], ...] = ()


_ALL = (
    Demonstration("Good evening"),
    Demonstration("6.5*8 = ?", "calculator", (("expression", "6.5*8"),)),
    Demonstration("What time is it in Paris?", "current_time", (("timezone", "Europe/Paris"),)),
    Demonstration("谁写了《红楼梦》？"),
    Demonstration("一百二十乘以七是多少？", "calculator", (("expression", "120*7"),)),
    Demonstration("My son was born in 2015."),
    Demonstration("今天星期几？", "current_time", (("timezone", "local"),)),
    Demonstration("Write a poem about time"),
    Demonstration("If it were Friday, which day would come next?"),
    Demonstration("When is my appointment?"),
    Demonstration("现在纽约几点？", "current_time", (("timezone", "America/New_York"),)),
    Demonstration("What happened in the elections today?", "web_search", (("query", "elections"),)),
    Demonstration("午饭35元，咖啡18元，一共多少钱？", "calculator", (("expression", "35+18"),)),
    Demonstration(
        "Remind me to feed the cat every Sunday at 10",
        "remind_me",
        (("what", "feed the cat"), ("when", "every Sunday at 10")),
    ),
    Demonstration("How long do I boil rice?"),
    Demonstration("What is 15% of 80?", "calculator", (("expression", "80*15/100"),)),
    Demonstration(
        "每天晚上九点提醒我浇花", "remind_me", (("what", "浇花"), ("when", "每天晚上九点"))
    ),
    Demonstration("假如昨天是星期一，明天星期几？"),
    Demonstration("请记住我不吃香菜。", "remember", (("fact", "我不吃香菜"),)),
    Demonstration("我有三个苹果。"),
)


def demonstrations(tools: Collection[str]) -> list[Demonstration]:
    """The examples for a model that is offered these tools."""
    return [example for example in _ALL if not example.tool or example.tool in tools]


Schema = dict[str, Any]

_KEPT = ("type", "enum", "const", "minItems", "maxItems", "minimum", "maximum")
_MAX_DEPTH = 8


class ActionSchema:
    """What the model may choose when these tools are offered."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        taken = {tool.name for tool in tools}
        self.none = next(name for name in ("none", "no_tool", "nothing") if name not in taken)
        """The action that means that no tool is needed."""
        self._shapes = {tool.name: _parameters(tool) for tool in tools}
        self.nested = frozenset(
            name for name, shape in self._shapes.items() if "action" in shape["properties"]
        )
        """Tools whose own parameters would hide the action; theirs stand under ``arguments``."""

    @property
    def schema(self) -> Schema:
        """The schema of an answer. The order is kept by the engine, so the action comes first."""
        none = _object({"action": {"const": self.none}}, [])
        actions = (self._action(name, shape) for name, shape in self._shapes.items())
        return {"anyOf": [none, *actions]}

    def parameters(self, name: str) -> list[str]:
        """Names of the parameters that are offered of a tool."""
        return list(self._shapes[name]["properties"])

    def _action(self, name: str, shape: Schema) -> Schema:
        action = {"action": {"const": name}}
        if name in self.nested:
            return _object({**action, "arguments": shape}, ["arguments"])
        return _object({**action, **shape["properties"]}, shape["required"])


def _object(properties: Schema, required: Sequence[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name == "action" or name in required],
        "additionalProperties": False,
    }


def _parameters(tool: ToolDefinition) -> Schema:
    root = tool.parameters
    properties = root.get("properties") or {}
    required = [name for name in root.get("required", ()) if name in properties]
    offered = {
        name: _simple(schema, root, 0)
        for name, schema in properties.items()
        if name in required or not required
    }
    return {
        "type": "object",
        "properties": offered,
        "required": required,
        "additionalProperties": False,
    }


def _simple(schema: object, root: Mapping[str, Any], depth: int) -> Schema:
    """The part of a schema that shapes its values, with references put in their place."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        return _simple(_resolved(reference, root), root, depth + 1)
    simple: Schema = {key: schema[key] for key in _KEPT if key in schema}
    for key in ("anyOf", "oneOf", "allOf"):
        if branches := schema.get(key):
            shapes = [_simple(branch, root, depth + 1) for branch in branches]
            shapes = [shape for shape in shapes if shape != {"type": "null"}]
            if len(shapes) == 1 or key == "allOf":
                return {**simple, **shapes[0]} if shapes else simple
            simple["anyOf"] = shapes
    if properties := schema.get("properties"):
        simple["type"] = "object"
        simple["properties"] = {
            name: _simple(value, root, depth + 1) for name, value in properties.items()
        }
        simple["required"] = [name for name in schema.get("required", ()) if name in properties]
        simple["additionalProperties"] = False
    if "items" in schema:
        simple["items"] = _simple(schema["items"], root, depth + 1)
    return simple


def _resolved(reference: str, root: Mapping[str, Any]) -> object:
    """What a reference inside the same schema points at (RFC 6901); nothing for any other."""
    if not reference.startswith("#/"):
        return None
    target: object = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        target = target.get(step) if isinstance(target, Mapping) else None
    return target


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
    >>> answered = Message.tool(ToolResult(id="c", content="12:00"))
    >>> [each.text for each in plain([Message.user("What time is it?"), asked, answered])]
    ['What time is it?\\n\\n(clock: 12:00)']
    """
    rendered: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if message.role == "tool":
            name = names.get(message.tool_call_id or "", "")
            text = _told(name, message.told_result)
            if rendered and rendered[-1].role == "user":
                text = f"{_whole(rendered.pop())}\n\n{text}"
            rendered.append(Message.user(text))
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
