"""The client of OpenAI-compatible endpoints over real sockets: what it sends, and its life."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from service.config import LLMSettings, Settings
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
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMError, LLMStatusError
from service.llm.factory import create_llm
from tests.support.llm.endpoint import Call, chunk, endpoint, playing
from tests.support.llm.openai_client import HELLO, USAGE, client, collect

pytestmark = pytest.mark.anyio

ADD = ToolDefinition(
    name="add",
    description="Add.",
    parameters={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
)


async def test_words_and_usage_stream_as_they_come() -> None:
    handler = playing(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        USAGE,
        "[DONE]",
    )
    async with endpoint(handler) as served:
        parts = await collect(client(served.base_url))
    assert parts == [TextDelta("Hel"), TextDelta("lo"), TokenUsage("m", 9, 2)]


async def test_a_call_carries_the_conversation_tools_and_bounds() -> None:
    call = ToolCall(id="c1", name="add", arguments='{"x": 1}')
    broken = ToolCall(id="c2", name="add", arguments="{x")
    messages = [
        Message.system("Be kind."),
        Message(
            role="user", content=(TextPart(text="See"), ImageUrlPart(url="https://x.example/a.png"))
        ),
        Message(
            role="assistant",
            content=(ThinkPart(think="secret"), TextPart(text="I add.")),
            tool_calls=(call, broken),
        ),
        Message.tool(ToolResult(id="c1", content="2")),
        Message.tool(ToolResult(id="c2", content="not JSON", is_error=True)),
        Message.user("half a pair: \ud83d"),
    ]
    async with endpoint(playing(chunk({"content": "ok"}, "stop"))) as served:
        await collect(client(served.base_url, temperature=0.5), messages, tools=[ADD], max_tokens=7)
    sent = served.calls[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer k"
    assert sent.body["stream_options"] == {"include_usage": True}
    assert (sent.body["max_tokens"], sent.body["temperature"]) == (7, 0.5)
    assert sent.body["tools"][0]["function"]["name"] == "add"
    system, user, assistant, first, second, last = sent.body["messages"]
    assert system == {"role": "system", "content": "Be kind."}
    assert user["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "https://x.example/a.png"},
    }
    assert assistant["content"] == "I add."
    assert assistant["tool_calls"][1]["function"]["arguments"] == '{"invalid_json": "{x"}'
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "2"}
    assert (second["tool_call_id"], second["content"]) == ("c2", "Error: not JSON")
    assert last["content"] == "half a pair: ?"


async def test_an_endpoint_is_told_no_bound_of_the_answer_unless_one_is_set() -> None:
    async with endpoint(playing(chunk({"content": "ok"}, "stop"))) as served:
        free = LLMSettings(provider="openai", base_url=served.base_url)
        for chosen in (free, free.model_copy(update={"max_tokens": 99})):
            llm = create_llm(Settings(llm=chosen))
            assert [part async for part in llm.stream(HELLO)]
            await llm.aclose()
        await collect(client(served.base_url), max_tokens=7)
    bounds = [{name for name in each.body if "max" in name} for each in served.calls]
    assert bounds == [set(), {"max_tokens"}, {"max_tokens"}]
    assert [each.body.get("max_tokens") for each in served.calls] == [None, 99, 7]


async def test_notes_of_the_house_are_sent_in_their_place_beside_words_and_tool_calls() -> None:
    call = ToolCall(id="c1", name="add", arguments="{}")
    note, words = NotePart(note="[Summary: it was about Lisbon.]"), TextPart(text="Go on.")
    messages = [
        Message(role="user", content=(note, words)),
        Message(role="assistant", content=(note,)),
        Message(role="assistant", content=(note,), tool_calls=(call,)),
        Message.tool(ToolResult(id="c1", content="2")),
        Message(role="assistant", content=(words, NotePart(note="[The person stopped you.]"))),
        Message(role="user", content=(note, words, ImageUrlPart(url="https://x.example/a.png"))),
    ]
    async with endpoint(playing(chunk({"content": "ok"}, "stop"))) as served:
        await collect(client(served.base_url), messages)
    sent = [message["content"] for message in served.calls[0].body["messages"]]
    assert sent[0] == "[Summary: it was about Lisbon.]\n\nGo on."
    assert sent[1] == sent[2] == "[Summary: it was about Lisbon.]"
    assert sent[4] == "Go on.\n\n[The person stopped you.]"
    assert [piece["type"] for piece in sent[5]] == ["text", "text", "image_url"]


async def test_a_response_schema_is_asked_for_strictly_where_strict_mode_can_take_it() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    async with endpoint(playing(chunk({"content": "{}"}, "stop"))) as served:
        await collect(client(served.base_url), response_schema=schema)
        strict = {**schema, "additionalProperties": False}
        await collect(client(served.base_url), response_schema=strict)
    formats = [call.body["response_format"]["json_schema"] for call in served.calls]
    assert [form["strict"] for form in formats] == [False, True]


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 6}}, 6),
        ({"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 4}, 5),
        ({"prompt_tokens_details": None}, 0),
    ],
    ids=["OpenAI", "DeepSeek", "none"],
)
async def test_tokens_from_the_cache_are_told(usage: dict[str, Any], cached: int) -> None:
    counts = {"prompt_tokens": 9, "completion_tokens": 2, **usage}
    handler = playing(chunk({"content": "ok"}, "stop"), {"choices": [], "usage": counts})
    async with endpoint(handler) as served:
        parts = await collect(client(served.base_url))
    assert parts[-1] == TokenUsage("m", 9, 2, cached_input_tokens=cached)


async def test_cancelling_closes_the_connection() -> None:
    started = anyio.Event()

    async def handler(call: Call) -> None:
        await call.begin()
        await call.event(chunk({"content": "Hel"}))
        started.set()
        await call.gone.wait()

    async with endpoint(handler) as served:
        llm = client(served.base_url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, llm)
            await started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            await served.calls[0].gone.wait()


async def test_the_status_tells_what_stands_in_the_way_until_a_call_succeeds() -> None:
    answers = [("401 Unauthorized", {"error": {"message": "no"}})]

    async def handler(call: Call) -> None:
        if answers:
            await call.reply(*answers.pop())
        else:
            await playing(chunk({"content": "ok"}, "stop"))(call)

    async with endpoint(handler) as served:
        llm = client(served.base_url)
        assert llm.status().ready
        with pytest.raises(LLMStatusError):
            [part async for part in llm.stream(HELLO)]
        assert not llm.status().ready
        assert "RONDO_LLM__API_KEY" in llm.status().detail
        assert [part async for part in llm.stream(HELLO)]
        assert llm.status().ready
        await llm.aclose()


async def test_a_closed_client_says_so() -> None:
    llm = client("http://127.0.0.1:9/v1")
    await llm.aclose()
    with pytest.raises(LLMError, match="closed"):
        await collect(llm)
