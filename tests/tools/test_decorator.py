from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConfigurationError
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import Tool, ToolFailure
from tests.support.tools.tool_calls import CONTEXT

pytestmark = pytest.mark.anyio


class Place(BaseModel):
    """Where."""

    title: str
    zone: Literal["a", "b"] = "a"


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@tool(effect="read_only")
def greet(
    name: Annotated[str, Field(description="Whom to greet.")],
    times: Annotated[int, Field(ge=1, le=3)] = 1,
) -> str:
    """Greet somebody,
    perhaps more than once.

    This is for programmers.
    """
    return f"Hello {name}! " * times


@tool()
async def whose(context: ToolContext, note: str = "") -> str:
    """Tell whose call this is."""
    return f"{context.owner} {note}".strip()


def test_the_model_is_told_name_first_paragraph_and_schema() -> None:
    definition = greet.definition
    assert definition.name == "greet"
    assert definition.description == "Greet somebody, perhaps more than once."
    assert definition.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "description": "Whom to greet."},
            "times": {"type": "integer", "minimum": 1, "maximum": 3, "default": 1},
        },
        "required": ["name"],
    }


def test_a_tool_has_side_effects_unless_it_says_otherwise() -> None:
    made: Tool = whose
    assert (made.effect, made.needs_approval, made.timeout_seconds) == ("side_effects", False, 30)


def test_the_context_is_not_shown_to_the_model() -> None:
    assert list(whose.definition.parameters["properties"]) == ["note"]


def test_definitions_are_inlined_and_an_argument_may_be_called_title() -> None:
    @tool()
    def go(
        to: Annotated[Place, Field(description="The goal.")], via: list[Place] | None = None
    ) -> None:
        """Go there."""

    parameters = go.definition.parameters
    assert "$defs" not in parameters
    assert parameters["properties"]["to"]["description"] == "The goal."
    assert parameters["properties"]["to"]["properties"]["title"] == {"type": "string"}
    assert parameters["properties"]["via"]["anyOf"][0]["items"]["properties"]["zone"] == {
        "type": "string",
        "enum": ["a", "b"],
        "default": "a",
    }


def test_a_definition_that_holds_itself_stays_a_reference() -> None:
    @tool()
    def plant(tree: Tree) -> None:
        """Plant it."""

    parameters = plant.definition.parameters
    assert list(parameters["$defs"]) == ["Tree"]
    assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}


async def test_arguments_reach_the_function_typed() -> None:
    seen: list[object] = []

    @tool()
    def note(day: date, place: Place) -> None:
        """Note it."""
        seen.extend((day, place))

    await note.run('{"day": "2026-03-01", "place": {"title": "家"}}', CONTEXT)
    assert seen == [date(2026, 3, 1), Place(title="家")]


async def test_the_context_is_filled_in() -> None:
    assert await whose.run("{}", CONTEXT) == "me"


async def test_the_model_cannot_give_the_context_itself() -> None:
    with pytest.raises(ToolFailure, match="context: there is no such argument"):
        await whose.run('{"context": {"owner": "someone else"}}', CONTEXT)


@pytest.mark.parametrize("empty", ["", "  \n", "{}", "null"])
async def test_no_arguments_can_be_written_in_several_ways(empty: str) -> None:
    assert await whose.run(empty, CONTEXT) == "me"


async def test_chinese_arguments_and_raw_line_breaks_are_understood() -> None:
    assert await greet.run('{"name": "小明\n你好"}', CONTEXT) == "Hello 小明\n你好! "


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"name": "a"', ["not valid JSON", "name (string, required)"]),
        ("[" * 100_000, ["100 levels deep"]),
        ('{"name": ' + "9" * 5000 + "}", ["not valid JSON"]),
        ('["a"]', ["must be one JSON object", '["a"]']),
        ("{}", ["name: missing; expected string: Whom to greet."]),
        ('{"name": "a", "time": 2}', ["time: there is no such argument", "`times`"]),
        ('{"name": "a", "times": 9}', ["times: input should be less than or equal to 3", "not 9"]),
        ('{"name": 5, "times": "x"}', ["name: ", "times: "]),
    ],
)
async def test_arguments_that_cannot_be_used_are_told_in_words(
    arguments: str, words: list[str]
) -> None:
    with pytest.raises(ToolFailure) as caught:
        await greet.run(arguments, CONTEXT)
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("levels", [101, 400, 5_000, 100_000])
async def test_arguments_that_are_nested_too_deeply_are_told_in_words(levels: int) -> None:
    @tool()
    async def keep(value: Any) -> None:
        """Keep a value."""

    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * levels + "1" + closing * levels
        with pytest.raises(ToolFailure, match="100 levels deep"):
            await keep.run(f'{{"value": {deep}}}', CONTEXT)
    fine = "[" * 99 + "]" * 99
    assert await keep.run(f'{{"value": {fine}}}', CONTEXT) == "Done."


async def test_lone_surrogates_in_arguments_are_replaced() -> None:
    assert await greet.run('{"name": "a\\ud800b\\ud83d\\ude00"}', CONTEXT) == "Hello a\ufffdb😀! "


@dataclass
class Point:
    x: int


class Strange:
    def __repr__(self) -> str:
        return "<strange>"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("as it is", "as it is"),
        (None, "Done."),
        (True, "true"),
        ({"城市": "北京"}, '{"城市": "北京"}'),
        ([1, Place(title="家")], '[1, {"title": "家", "zone": "a"}]'),
        (Place(title="家"), '{"title": "家", "zone": "a"}'),
        (Point(3), '{"x": 3}'),
        (b"\xff", '"_w=="'),
        (Strange(), '"<strange>"'),
        ("a\ud800b", "a\ufffdb"),
        ({"a": "\udfff"}, '{"a": "\ufffd"}'),
    ],
)
async def test_results_become_words(value: object, words: str) -> None:
    @tool()
    def give() -> object:
        """Give it."""
        return value

    assert await give.run("", CONTEXT) == words


async def test_a_function_that_is_not_async_runs_in_a_worker_thread() -> None:
    @tool()
    def where() -> str:
        """Tell the thread."""
        return threading.current_thread().name

    assert await where.run("", CONTEXT) != threading.current_thread().name


def test_what_cannot_become_a_tool_is_refused_with_the_reason() -> None:
    def bare(x) -> None:  # type: ignore[no-untyped-def]
        """Do."""

    def many(*args: int) -> None:
        """Do."""

    def silent(x: int) -> None: ...

    def private(_x: int) -> None:
        """Do."""

    def opaque(x: threading.Thread) -> None:
        """Do."""

    for function, reason in (
        (bare, "no annotation"),
        (many, "by name"),
        (silent, "what it is for"),
        (private, "_x"),
        (opaque, "Thread"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            tool()(function)
    with pytest.raises(ConfigurationError, match="name of a tool"):
        tool(name="你好")(silent)
    with pytest.raises(ConfigurationError, match="seconds"):
        tool(description="Do.", timeout_seconds=0)(silent)


def test_a_tool_is_a_value() -> None:
    assert isinstance(greet, FunctionTool)
    with pytest.raises(AttributeError):
        greet.effect = "side_effects"  # type: ignore[misc]
