from __future__ import annotations

import pytest

from service.domain.conversation.instructions import RequestHumanPrompt, RequestHumanSelect
from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tools.builtins.ask_user import ask_user, choose, question_of
from service.tools.decorator import tool
from tests.support.tools.tool_calls import CONTEXT, call_of, registry_of

pytestmark = pytest.mark.anyio


@tool()
def launch() -> None:
    """Launch."""


class Broken:
    """A tool that cannot tell what it asks."""

    definition = ToolDefinition(name="broken", description="Ask.", parameters={})
    effect: ToolEffect = "read_only"
    needs_approval = False
    timeout_seconds = 1.0

    def question(self, call: ToolCall) -> RequestHumanPrompt:
        raise KeyError(call.name)

    async def run(self, arguments: str, context: ToolContext) -> str:
        return "asked nobody"


REGISTRY = registry_of(ask_user, choose, launch, Broken())


def test_a_question_is_put_to_the_person() -> None:
    asked = question_of(REGISTRY, call_of("ask_user", "c1", question=" 去哪里？ "))
    assert asked == RequestHumanPrompt(prompt="去哪里？", call_id="c1")


def test_a_choice_is_put_to_the_person_without_options_that_say_the_same() -> None:
    call = call_of("choose", "c1", question="Which?", options=["tea", " tea ", "cold\n milk"])
    assert question_of(REGISTRY, call) == RequestHumanSelect(
        prompt="Which?", options=("tea", "cold milk"), call_id="c1", multiple=False
    )
    several = call_of("choose", question="Which?", options=["a", "b"], multiple=True)
    asked = question_of(REGISTRY, several)
    assert isinstance(asked, RequestHumanSelect)
    assert asked.multiple


@pytest.mark.parametrize("name", ["launch", "unknown", "broken"])
def test_what_is_no_question_asks_nothing(name: str) -> None:
    assert question_of(REGISTRY, call_of(name)) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (call_of("ask_user"), "question: missing"),
        (call_of("ask_user", question="  "), "question is empty"),
        (call_of("ask_user", question="x" * 5_000), "at most 4000 characters"),
        (call_of("choose", question="Which?", options=["a"]), "at least 2 items"),
        (call_of("choose", question="Which?", options=["a", " a"]), "two different options"),
        (call_of("choose", question="Which?", options=["a", ""]), "option is empty"),
        (ToolCall(id="c", name="choose", arguments='{"question": "Wh'), "not valid JSON"),
        (ToolCall(id="c", name="ask_user", arguments='"tea?"'), "one JSON object"),
    ],
)
async def test_a_question_that_cannot_be_asked_is_told_to_the_model(
    call: ToolCall, words: str
) -> None:
    assert question_of(REGISTRY, call) is None
    result = await REGISTRY.execute(call, CONTEXT)
    assert result.is_error
    assert words in result.content


async def test_where_nobody_is_asked_the_model_goes_on_without_an_answer() -> None:
    result = await REGISTRY.execute(call_of("ask_user", question="Where to?"), CONTEXT)
    assert result.is_error
    assert "Nobody could be asked" in result.content
