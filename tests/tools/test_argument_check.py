from __future__ import annotations

from typing import Any

import pytest

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tools.arguments import check_arguments, edited_arguments
from service.tools.decorator import tool
from service.tools.protocol import Tool, ToolFailure


@tool()
def pay(amount: int, to: str = "me") -> None:
    """Pay."""


class Foreign:
    """A tool that has a schema, and nothing else to check with."""

    effect: ToolEffect = "side_effects"
    needs_approval = True
    timeout_seconds = 1.0

    def __init__(self, schema: dict[str, Any]) -> None:
        self.definition = ToolDefinition(name="pay", description="Pay.", parameters=schema)

    async def run(self, arguments: str, context: ToolContext) -> str:
        return "paid"


FOREIGN = Foreign(
    {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "to": {"enum": ["me", "你"]}},
        "required": ["amount"],
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize("tool", [pay, FOREIGN])
def test_arguments_that_fit_the_schema_are_taken(tool: Tool) -> None:
    check_arguments(tool, '{"amount": 3}')
    check_arguments(tool, '{"amount": 3, "to": "你"}')


@pytest.mark.parametrize("tool", [pay, FOREIGN])
@pytest.mark.parametrize(
    "arguments", ["{}", '{"amount": "much"}', '{"amount": 1, "too": "you"}', "[]", '{"amount":']
)
def test_arguments_that_do_not_fit_are_refused(tool: Tool, arguments: str) -> None:
    with pytest.raises(ToolFailure):
        check_arguments(tool, arguments)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ToolFailure, match=r"to: 'you' is not one of \['me', '你'\]"):
        check_arguments(FOREIGN, '{"amount": 3, "to": "you"}')


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_cannot_be_used_checks_nothing_and_so_lets_nothing_pass(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(ToolFailure, match="own schema cannot be used"):
        check_arguments(Foreign(schema), "{}")


def test_arguments_that_say_the_same_are_no_edit() -> None:
    assert edited_arguments('{"to":"你", "amount": 3}', '{"amount": 3, "to": "\\u4f60"}') is None


@pytest.mark.parametrize(("mine", "theirs"), [("true", "1"), ("1.0", "1"), ("null", '"null"')])
def test_values_of_another_type_are_an_edit(mine: str, theirs: str) -> None:
    mine, theirs = f'{{"x": {mine}}}', f'{{"x": {theirs}}}'
    assert edited_arguments(mine, theirs) == mine


def test_what_the_model_wrote_badly_can_be_mended() -> None:
    assert edited_arguments('{"amount": 3}', '{"amount": 3') == '{"amount": 3}'


@pytest.mark.parametrize("text", ["[]", '{"x": NaN}', '{"x": 1', "7"])
def test_only_a_json_object_is_an_edit(text: str) -> None:
    with pytest.raises(ToolFailure):
        edited_arguments(text, "{}")
