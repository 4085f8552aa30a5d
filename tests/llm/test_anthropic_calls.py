"""The client of Anthropic's API over real sockets: what it sends over the turns of a loop."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from service.domain.conversation.messages import (
    ImageUrlPart,
    Message,
    NotePart,
    TextPart,
    ThinkPart,
    ToolCall,
    ToolResult,
)
from service.domain.conversation.stream_parts import TextDelta, TokenUsage
from service.domain.errors import LLMError
from service.llm.anthropic.anthropic_wire import REDACTED
from tests.support.llm.anthropic_endpoint import (
    ADD,
    HELLO,
    answer,
    arguments,
    assembled,
    block,
    client,
    collect,
    end,
    playing_events,
    sent,
    start,
    stream_of,
    text,
    thoughts,
    with_thinking,
    without_abilities,
)
from tests.support.llm.endpoint import Call, endpoint

pytestmark = pytest.mark.anyio

CACHED = {"cache_control": {"type": "ephemeral"}}
SYSTEM = Message.system("Be kind.")
THOUGHT_AND_CALL = [
    start(cache_read_input_tokens=100, cache_creation_input_tokens=20),
    *block(0, "thinking", *thoughts("I ", "add.", signature="c2ln"), thinking="", signature=""),
    *block(1, "redacted_thinking", data="b3BhcXVl"),
    *block(2, "thinking", *thoughts(signature="ZW1wdHk="), thinking="", signature=""),
    *block(3, "text", *text("One ", "moment."), text=""),
    *block(4, "tool_use", *arguments("", '{"x"', ": 1}"), id="toolu_1", name="add", input={}),
    *block(5, "tool_use", id="toolu_2", name="now", input={}),
    *end("tool_use", output_tokens=30),
]


@pytest.mark.slow
async def test_words_and_usage_stream_as_they_come() -> None:
    events = [
        start(input_tokens=9, cache_read_input_tokens=100, cache_creation_input_tokens=20),
        {"type": "ping"},
        *block(0, "text", *text("Hel", "lo"), text=""),
        {"type": "something_new", "index": 7},
        *end(output_tokens=2),
    ]
    async with endpoint(playing_events(*events)) as served:
        parts = await collect(client(served.base_url))
    usage = TokenUsage("claude-x", 129, 2, cached_input_tokens=100)
    assert parts == [TextDelta("Hel"), TextDelta("lo"), usage]
    call = served.calls[-1]
    assert call.path == "/v1/messages"
    assert "sk-ant-test" in call.headers["authorization"] + call.headers.get("x-api-key", "")
    assert call.body == {
        "model": "claude-x",
        "max_tokens": 2048,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello", **CACHED}]},
        ],
        "stream": True,
    }


@pytest.mark.slow
async def test_a_thought_goes_back_unchanged_and_in_its_place_before_the_tool_call() -> None:
    answers = [THOUGHT_AND_CALL, answer("2")]

    async def handler(call: Call) -> None:
        await call.begin()
        await call.send(stream_of(answers.pop(0)).encode())

    question = Message.user("1 + 1?")
    async with endpoint(with_thinking(handler, "adaptive", "disabled")) as served:
        llm = client(served.base_url, thinking_tokens=4000)
        said = assembled([part async for part in llm.stream([SYSTEM, question], tools=[ADD])])
        assert said.content == (
            ThinkPart(think="I add.", signature="c2ln"),
            ThinkPart(think="", signature=REDACTED + "b3BhcXVl"),
            ThinkPart(think="", signature="ZW1wdHk="),
            TextPart(text="One moment."),
        )
        assert said.tool_calls == (
            ToolCall(id="toolu_1", name="add", arguments='{"x": 1}'),
            ToolCall(id="toolu_2", name="now", arguments="{}"),
        )
        turns = [
            SYSTEM,
            question,
            said,
            Message.tool(ToolResult(id="toolu_1", content="2")),
            Message.tool(ToolResult(id="toolu_2", content="")),
        ]
        assert assembled(await collect(llm, turns, tools=[ADD])).text == "2"
    first, second = sent(served)
    assert first["messages"][-1]["content"][-1] == {"type": "text", "text": "1 + 1?", **CACHED}
    assert second == {
        "model": "claude-x",
        "max_tokens": 6048,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "stream": True,
        "system": [{"type": "text", "text": "Be kind.", **CACHED}],
        "tools": [{"name": "add", "description": "Add.", "input_schema": ADD.parameters}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "1 + 1?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I add.", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "b3BhcXVl"},
                    {"type": "thinking", "thinking": "", "signature": "ZW1wdHk="},
                    {"type": "text", "text": "One moment."},
                    {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"x": 1}},
                    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"},
                    {"type": "tool_result", "tool_use_id": "toolu_2", **CACHED},
                ],
            },
        ],
    }


async def request(*messages: Message, **options: Any) -> dict[str, Any]:
    """What is sent for a conversation."""
    async with endpoint(playing_events(*answer("ok"))) as served:
        await collect(client(served.base_url), list(messages), **options)
    return sent(served)[-1]


async def test_what_the_api_would_refuse_is_sent_in_a_form_that_it_takes() -> None:
    body = await request(
        Message.user(""),
        Message(role="assistant", content=(NotePart(note="[Summary: it was about Lisbon.]"),)),
        Message(
            role="assistant",
            content=(ThinkPart(think="never signed"), TextPart(text=" ")),
            tool_calls=(ToolCall(id="functions.add:0", name="add", arguments="{x"),),
        ),
        Message.user("Wait!"),
        Message.tool(ToolResult(id="functions.add:0", content="not JSON", is_error=True)),
        Message.user("half a pair: \ud83d"),
    )
    opening, assistant, user = body["messages"]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert opening["content"][0]["text"]
    summary, call = assistant["content"]
    assert summary == {"type": "text", "text": "[Summary: it was about Lisbon.]"}
    assert call["input"] == {"invalid_json": "{x"}
    result, wait, words = user["content"]
    assert (result["type"], wait["text"]) == ("tool_result", "Wait!")
    assert result["tool_use_id"] == call["id"]
    assert set(call["id"]) <= set("abcdefghijklmnopqrstuvwxyz_0123456789")
    assert words["text"] == "half a pair: ?"


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("no such file", "no such file"),
        ("", "Error: the tool does not say why it failed"),
    ],
)
async def test_a_failure_of_a_tool_is_told_as_one(said: str, content: str) -> None:
    calls = tuple(ToolCall(id=each, name="read") for each in ("c1", "c2"))
    body = await request(
        Message.user("Read both."),
        Message.assistant("", calls),
        Message.tool(ToolResult(id="c1", content=said, is_error=True)),
        Message.tool(ToolResult(id="c2", content="words")),
    )
    failed, worked = body["messages"][-1]["content"]
    assert (failed["is_error"], failed["content"]) == (True, content)
    assert "is_error" not in worked


async def test_tools_that_the_conversation_used_stay_defined_when_none_is_on_offer() -> None:
    call = ToolCall(id="c1", name="add", arguments='{"x": 1}')
    body = await request(
        Message.user("1 + 1?"),
        Message.assistant("", (call,)),
        Message.tool(ToolResult(id="c1", content="2")),
    )
    assert [tool["name"] for tool in body["tools"]] == ["add"]
    assert body["tool_choice"] == {"type": "none"}


async def test_images_are_sent_by_address_or_by_their_bytes() -> None:
    urls = (
        "https://x.example/a.png",
        "data:image/jpeg;base64,AAAA",
        "data:image/svg+xml,%3Csvg/%3E",
        "data:nonsense",
    )
    body = await request(Message(role="user", content=tuple(ImageUrlPart(url=u) for u in urls)))
    by_address, by_bytes, quoted, unreadable = body["messages"][0]["content"]
    assert by_address["source"] == {"type": "url", "url": "https://x.example/a.png"}
    assert by_bytes["source"] == {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}
    assert quoted["source"]["data"] == "PHN2Zy8+"
    assert unreadable["type"] == "text"


async def test_a_response_schema_is_asked_for_as_output_format() -> None:
    schema = {
        "type": "object",
        "properties": {"continues": {"enum": ["a", "b"]}, "n": {"type": "integer", "minimum": 1}},
        "required": ["continues"],
    }
    body = await request(*HELLO, response_schema=schema, max_tokens=80, temperature=0.0)
    assert body["max_tokens"] == 80
    assert "temperature" not in body
    form = body["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert form["schema"]["additionalProperties"] is False
    assert form["schema"]["properties"]["continues"] == {"enum": ["a", "b"]}
    assert "minimum" not in form["schema"]["properties"]["n"]
    assert "cache_control" not in str(body["messages"])  # nobody goes on with a judgement


async def test_cancelling_closes_the_connection() -> None:
    started = anyio.Event()

    async def handler(call: Call) -> None:
        await call.begin()
        await call.send(stream_of([start(), *block(0, "text", *text("Hel"), text="")]).encode())
        started.set()
        await call.gone.wait()

    async with endpoint(without_abilities(handler)) as served:
        llm = client(served.base_url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, llm)
            await started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            await served.calls[-1].gone.wait()


async def test_two_first_calls_at_once_look_up_the_model_once() -> None:
    handler = with_thinking(playing_events(*answer("ok")), "adaptive")
    async with endpoint(handler) as served:
        llm = client(served.base_url)

        async def ask() -> None:
            assert [part async for part in llm.stream(HELLO)]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        await llm.aclose()
    assert [call.path for call in served.calls].count("/v1/models/claude-x") == 1


async def test_a_closed_client_says_so() -> None:
    llm = client("http://127.0.0.1:9")
    await llm.aclose()
    with pytest.raises(LLMError, match="closed"):
        await collect(llm)


async def test_an_address_may_be_given_with_its_version_too() -> None:
    async with endpoint(playing_events(*answer("ok"))) as served:
        from service.llm.anthropic.anthropic_messages import AnthropicModel

        await collect(AnthropicModel(model="claude-x", base_url=f"{served.base_url}/"))
    assert {call.path for call in served.calls} == {"/v1/models/claude-x", "/v1/messages"}
