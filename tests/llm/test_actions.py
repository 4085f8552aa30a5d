"""Tools for a model that knows none: the schema, the rendering, and the reading of answers.

Unit tests: the model itself is too slow to meet every way in which an answer can be cut.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.agent.llm.action_reader import ActionReader
from service.agent.llm.action_schema import ActionSchema
from service.agent.llm.json_text import JsonStringReader
from service.agent.llm.tool_adapter import MOST_ROUNDS, ToolAdapter
from service.domain.errors import LLMStreamError
from service.domain.messages import Message, NotePart, TextPart, ToolCall, ToolResult
from service.domain.stream import StreamPart, TextDelta, ToolCallDelta
from service.domain.tools import ToolDefinition


def tool(name: str, parameters: dict[str, Any] | None = None) -> ToolDefinition:
    given = parameters or {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }
    return ToolDefinition(name=name, description=f"Does {name}.", parameters=given)


def answer(text: str, size: int = 1, tools: tuple[str, ...] = ("search",)) -> list[StreamPart]:
    reader = ActionReader(ActionSchema([tool(name) for name in tools]))
    parts: list[StreamPart] = []
    for start in range(0, len(text), size):
        parts += reader.feed(text[start : start + size])
    return parts + reader.finish()


def words(parts: list[StreamPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


@given(st.text(), st.booleans(), st.data())
def test_a_json_string_is_decoded_however_it_is_cut(
    text: str, ascii_only: bool, data: st.DataObject
) -> None:
    source = json.dumps(text, ensure_ascii=ascii_only)[1:] + " rest"
    cuts = data.draw(st.lists(st.integers(0, len(source)), max_size=10).map(sorted))
    reader = JsonStringReader()
    pieces = [source[a:b] for a, b in zip([0, *cuts], [*cuts, len(source)], strict=True)]
    assert "".join(map(reader.feed, pieces)) == text
    assert reader.closed


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('\\ud83d"', "\ufffd"),
        ('\\ude00x"', "\ufffdx"),
        ('\\ud83d\\n"', "\ufffd\n"),
        ('\\uZZ"', "\ufffdZZ"),
    ],
)
def test_half_a_pair_and_wrong_escapes_become_replacement_letters(source: str, text: str) -> None:
    assert JsonStringReader().feed(source) == text


@given(st.text(min_size=1), st.integers(1, 7), st.sampled_from([None, 2]))
def test_a_reply_streams_its_words_as_they_are_written(
    text: str, size: int, indent: int | None
) -> None:
    source = json.dumps({"action": "reply", "text": text}, indent=indent)
    assert words(answer(source, size)) == text


def test_a_reply_streams_before_it_is_complete() -> None:
    reader = ActionReader(ActionSchema([tool("search")]))
    assert reader.feed('{"action":"reply","text":"Hel') == [TextDelta("Hel")]


def test_an_action_becomes_one_tool_call() -> None:
    (call,) = answer('{"action": "search", "query": "你好"}')
    assert isinstance(call, ToolCallDelta)
    assert (call.index, call.name, call.arguments) == (0, "search", '{"query": "你好"}')
    assert call.id


def test_a_reply_that_is_cut_off_keeps_its_words() -> None:
    assert words(answer('{"action":"reply","text":"Once upon a')) == "Once upon a…"


@pytest.mark.parametrize("text", ['{"action":"search","query":"du', '{"act', "{", ""])
def test_an_action_that_is_cut_off_is_an_error_and_never_a_call(text: str) -> None:
    with pytest.raises(LLMStreamError) as raised:
        answer(text)
    assert not raised.value.retryable


def test_text_that_is_not_an_action_is_taken_for_words() -> None:
    assert words(answer("  Hello there")) == "  Hello there"


def test_a_tool_whose_parameter_is_called_action_gets_arguments_of_their_own() -> None:
    light = tool("light", {"properties": {"action": {"type": "string"}}, "required": ["action"]})
    form = ActionSchema([light])
    assert form.nested == {"light"}
    reader = ActionReader(form)
    assert reader.feed('{"action":"light","arguments":{"action":"on"}}') == []
    (call,) = reader.finish()
    assert isinstance(call, ToolCallDelta)
    assert json.loads(call.arguments) == {"action": "on"}


def test_a_tool_called_reply_does_not_hide_the_reply() -> None:
    assert ActionSchema([tool("reply")]).reply == "say"


def test_a_schema_keeps_required_parameters_and_resolves_references() -> None:
    parameters = {
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "properties": {
            "place": {"$ref": "#/$defs/Place"},
            "unit": {"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}], "default": None},
            "note": {"type": "string", "pattern": "^x", "format": "weird"},
        },
        "required": ["place", "unit"],
    }
    action = ActionSchema([tool("weather", parameters)]).schema["anyOf"][1]
    assert action["properties"]["unit"] == {"enum": ["C", "F"]}
    assert action["properties"]["place"]["properties"] == {"city": {"type": "string"}}
    assert list(action["properties"]) == ["action", "place", "unit"]
    assert action["required"] == ["action", "place", "unit"]


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    parameters = {"$defs": {"Node": node}, "properties": {"node": {"$ref": "#/$defs/Node"}}}
    assert json.dumps(ActionSchema([tool("walk", parameters)]).schema)


def test_a_history_is_rendered_in_the_form_that_is_asked_of_the_model() -> None:
    call = ToolCall(id="c", name="search", arguments='{"query": "dog"}')
    turns = ToolAdapter([tool("search")]).conversation(
        [
            Message.system("Be kind."),
            Message.user("My dog?"),
            Message.assistant("Let me see.", (call,)),
            Message.tool(ToolResult(id="c", content="Rex")),
            Message.assistant("It is Rex."),
            Message.user("Thanks"),
        ]
    )
    assert turns[0].role == "system"
    assert turns[0].text.startswith("Be kind.")
    assert [(turn.role, turn.text) for turn in turns][-5:] == [
        ("user", "My dog?"),
        (
            "assistant",
            '{"action":"reply","text":"Let me see."}\n{"action":"search","query":"dog"}',
        ),
        ("user", "Result of search:\nRex\n\n(Tell the user.)"),
        ("assistant", '{"action":"reply","text":"It is Rex."}'),
        ("user", "Thanks"),
    ]


def test_a_summary_of_earlier_rounds_is_not_rendered_as_an_empty_reply() -> None:
    summary = Message(role="assistant", content=(NotePart(note="[You planned a trip to Rome.]"),))
    turns = ToolAdapter([tool("search")]).conversation(
        [Message.user("Plan a trip."), summary, Message.user("When?")]
    )
    assert turns[-2].text == '{"action":"reply","text":"[You planned a trip to Rome.]"}'


def test_every_conversation_with_the_same_tools_begins_alike() -> None:
    adapter = ToolAdapter([tool("memory_search"), tool("calculator")])
    first = adapter.conversation([Message.system("Be kind."), Message.user("x")])
    second = adapter.conversation([Message.system("Be kind."), Message.user("y")])
    assert first[:-1] == second[:-1]
    assert len(first) > 10


def test_thirty_tools_still_fit() -> None:
    adapter = ToolAdapter([tool(f"tool_{number}") for number in range(30)])
    assert len(adapter.schema([])["anyOf"]) == 31
    assert len(adapter.conversation([])[0].text) < 4000


def actions(schema: dict[str, Any]) -> list[str]:
    shapes = schema.get("anyOf", [schema])
    return [shape["properties"]["action"]["const"] for shape in shapes]


def test_a_tool_that_has_just_answered_is_not_called_again_at_once() -> None:
    adapter = ToolAdapter([tool("search"), tool("expand")])
    history = [Message.user("x")]
    assert actions(adapter.schema(history)) == ["reply", "search", "expand"]
    history.append(Message.assistant("", (ToolCall(id="a", name="search"),)))
    history.append(Message.tool(ToolResult(id="a", content="found")))
    assert actions(adapter.schema(history)) == ["reply", "expand"]
    history.append(Message.assistant("", (ToolCall(id="b", name="expand"),)))
    history.append(Message.tool(ToolResult(id="b", content="more")))
    assert actions(adapter.schema(history)) == ["reply", "search"]


def test_where_memory_stands_beside_the_question_it_is_not_searched_again() -> None:
    adapter = ToolAdapter([tool("memory_search"), tool("memory_expand"), tool("calculator")])
    assert actions(adapter.schema([Message.user("Hello")])) == ["reply", "calculator"]
    noted = Message(role="user", content=(NotePart(note="You remember…"), TextPart(text="Well?")))
    assert actions(adapter.schema([noted])) == ["reply", "calculator"]
    later = [noted, Message.assistant("Yes."), Message.user("And then?")]
    assert "memory_search" in actions(adapter.schema(later))


def test_a_model_that_goes_round_in_circles_must_reply() -> None:
    adapter = ToolAdapter([tool("search"), tool("expand")])
    history = [Message.user("x")]
    for number in range(MOST_ROUNDS):
        call = ToolCall(id=str(number), name=("search", "expand")[number % 2])
        history += [
            Message.assistant("", (call,)),
            Message.tool(ToolResult(id=str(number), content="")),
        ]
    assert actions(adapter.schema(history)) == ["reply"]
    history += [Message.assistant("Nothing."), Message.user("again")]
    assert actions(adapter.schema(history)) == ["reply", "search", "expand"]
