from __future__ import annotations

from pathlib import Path

import pytest

from service.config import LLMSettings, Settings
from service.domain.conversation.messages import Message, ToolCall, ToolResult
from service.domain.conversation.stream_parts import (
    MessageAssembler,
    StreamPart,
    TextDelta,
    TokenUsage,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import ConfigurationError, InvalidInputError, LLMError, LLMStatusError
from service.llm.factory import LLM, create_llm
from service.llm.scripted.chaos_model import ChaosLLM
from service.llm.scripted.script_language import parse_script
from service.llm.scripted.scripted_model import ScriptedModel

pytestmark = pytest.mark.anyio

SEARCH = ToolDefinition(name="search", description="", parameters={"type": "object"})
SCRIPT = """
# A tiny world.
== when weather|天气
think: I had better look
call/4: search {"query": "weather"}
--
text/5: Found: {result}\\nBye.
== when busy
error x2: 429/0.5 slow down
text: Now I have time.
== when steps
-- x3
call: search
--
text: Done.
== schema topic
text: {"continues": "a new matter"}
"""


async def played(llm: LLM, *messages: Message, offered: bool = True) -> list[StreamPart]:
    tools = (SEARCH,) if offered else ()
    return [part async for part in llm.stream(messages, tools=tools)]


async def message(llm: LLM, *messages: Message, offered: bool = True) -> Message:
    assembler = MessageAssembler()
    for part in await played(llm, *messages, offered=offered):
        assembler.add(part)
    return assembler.message()


def scripted() -> ScriptedModel:
    return ScriptedModel(parse_script(SCRIPT))


def answered(call: ToolCall, result: str) -> tuple[Message, Message]:
    return Message.assistant("", (call,)), Message.tool(ToolResult(id=call.id, content=result))


async def test_turns_are_played_in_order_and_then_it_is_an_error() -> None:
    llm = ScriptedModel(turns=["text: One", "text: Two\nusage: 3 4"])
    assert (await message(llm, Message.user("x"))).text == "One"
    assert (await played(llm, Message.user("x")))[-1] == TokenUsage("scripted", 3, 4)
    with pytest.raises(LLMError, match="no answer"):
        await message(llm, Message.user("x"))
    assert [request.tools for request in llm.requests] == [("search",)] * 3


async def test_a_rule_calls_a_tool_and_then_speaks_of_its_result() -> None:
    llm = scripted()
    asked = Message.user("今天天气怎么样？")
    first = await message(llm, asked)
    assert first.reasoning == "I had better look"
    assert [(c.name, c.arguments) for c in first.tool_calls] == [("search", '{"query": "weather"}')]
    second = await message(llm, asked, *answered(first.tool_calls[0], "sun"))
    assert second.text == "Found: sun\nBye."


async def test_the_same_conversation_gets_the_same_answer_from_a_new_process() -> None:
    asked = Message.user("three steps please")
    history = [asked]
    for _ in range(3):
        reply = await message(scripted(), *history)
        history += answered(reply.tool_calls[0], "ok")
    assert (await message(scripted(), *history)).text == "Done."
    assert (await message(scripted(), asked)).tool_calls


async def test_an_error_can_happen_a_few_times_only() -> None:
    llm = scripted()
    for _ in range(2):
        with pytest.raises(LLMStatusError) as raised:
            await played(llm, Message.user("busy?"))
        assert (raised.value.status, raised.value.retry_after) == (429, 0.5)
    assert (await message(llm, Message.user("busy?"))).text == "Now I have time."
    with pytest.raises(LLMStatusError):
        await played(llm, Message.user("busy again?"))


async def test_words_that_no_rule_knows_are_echoed() -> None:
    assert (await message(scripted(), Message.user("Hello"))).text == "You said: Hello"


async def test_no_tool_is_called_that_is_not_offered() -> None:
    last = await message(scripted(), Message.user("steps"), offered=False)
    assert last.tool_calls == ()
    assert last.text


async def test_routing_calls_have_rules_of_their_own() -> None:
    llm, schema = scripted(), {"type": "object"}
    stream = llm.stream([Message.user("Which topic?")], response_schema=schema)
    assert [part async for part in stream]
    with pytest.raises(LLMError, match="schema"):
        [_ async for _ in llm.stream([Message.user("weather")], response_schema=schema)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("connection", "llm-connection"),
        ("timeout", "llm-timeout"),
        ("fatal", "llm"),
        ("503", "llm-status"),
    ],
)
async def test_a_script_can_fail_in_every_way(kind: str, name: str) -> None:
    with pytest.raises(LLMError) as raised:
        await played(ScriptedModel(turns=[f"text: Hel\nerror: {kind}"]), Message.user("x"))
    assert raised.value.kind == name


async def test_a_cut_comes_after_the_words_before_it() -> None:
    stream = ScriptedModel(turns=["text: Hel\ncut:"]).stream([Message.user("x")])
    assert await anext(stream) == TextDelta("Hel")
    with pytest.raises(LLMError, match="cut"):
        await anext(stream)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("text: x", 1),
        ("== when (", 1),
        ("== when x\n\nshout: x", 3),
        ("== when x\ntext: a\n--\nerror: strange", 4),
        ("== default\ntext: a\n--\ntext: b", 1),
    ],
)
def test_a_line_that_cannot_be_understood_is_named(text: str, line: int) -> None:
    with pytest.raises(InvalidInputError, match=f"line {line} "):
        parse_script(text)


async def test_the_daemon_gets_its_script_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "world.script"
    file.write_text(SCRIPT, "utf-8")
    settings = Settings(llm=LLMSettings(provider="scripted", model=str(file)))
    assert (await message(create_llm(settings), Message.user("steps"))).tool_calls
    settings = Settings(llm=LLMSettings(provider="scripted", model=str(tmp_path / "none")))
    with pytest.raises(ConfigurationError, match="none"):
        create_llm(settings)


async def outcomes(seed: int) -> list[str]:
    llm = ChaosLLM(
        ScriptedModel(parse_script('== when c\ncall: search {"q": 1}\n== when t\ntext/1: Hello')),
        seed=seed,
        refused=0.3,
        cut=0.3,
        corrupted=0.3,
        delayed=0.3,
        delay_seconds=0.0,
    )
    seen = []
    for number in range(40):
        try:
            said = await message(llm, Message.user(f"{'tc'[number % 2]}{number % 5}"))
            seen.append(said.text + "".join(call.arguments for call in said.tool_calls))
        except LLMError as error:
            seen.append(error.detail)
    return seen


async def test_chaos_is_the_same_for_the_same_seed_and_different_for_others() -> None:
    first = await outcomes(7)
    assert first == await outcomes(7)
    assert first != await outcomes(8)
    assert {"refused by chaos", "cut by chaos", "Hello", '{"q": 1}'} <= set(first)
    assert any("\x00" in outcome for outcome in first)
