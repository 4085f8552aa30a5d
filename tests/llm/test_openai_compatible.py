"""The client against real sockets: every way in which an endpoint can fail has its own error."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest

from service.agent.llm.chunks import ChunkReader
from service.agent.llm.openai_compatible import OpenAICompatibleLLM
from service.agent.retry import retrying
from service.domain.errors import (
    LLMConnectionError,
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
)
from service.domain.messages import (
    ImageUrlPart,
    Message,
    TextPart,
    ThinkPart,
    ToolCall,
    ToolResult,
)
from service.domain.stream import MessageAssembler, StreamPart, TextDelta, TokenUsage
from service.domain.tools import ToolDefinition
from tests.llm.endpoint import Call, Handler, chunk, endpoint, playing

pytestmark = pytest.mark.anyio

HELLO = [Message.user("Hello")]
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
ADD = ToolDefinition(
    name="add",
    description="Add.",
    parameters={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
)


def client(base_url: str, **options: Any) -> OpenAICompatibleLLM:
    return OpenAICompatibleLLM(model="m", base_url=base_url, api_key="k", **options)


async def collect(
    llm: OpenAICompatibleLLM, messages: Sequence[Message] = HELLO, **options: Any
) -> list[StreamPart]:
    try:
        return [part async for part in llm.stream(messages, **options)]
    finally:
        await llm.aclose()


async def failure(handler: Handler, **options: Any) -> LLMError:
    async with endpoint(handler) as served:
        with pytest.raises(LLMError) as raised:
            await collect(client(served.base_url, **options))
    return raised.value


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
    assert second["tool_call_id"] == "c2"
    assert last["content"] == "half a pair: ?"


async def test_a_response_schema_is_asked_for_strictly_where_strict_mode_can_take_it() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    async with endpoint(playing(chunk({"content": "{}"}, "stop"))) as served:
        await collect(client(served.base_url), response_schema=schema)
        strict = {**schema, "additionalProperties": False}
        await collect(client(served.base_url), response_schema=strict)
    formats = [call.body["response_format"]["json_schema"] for call in served.calls]
    assert [form["strict"] for form in formats] == [False, True]


async def test_an_endpoint_that_nobody_serves_is_named_with_advice() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LLMConnectionError) as raised:
        await collect(client(f"http://127.0.0.1:{port}/v1"))
    assert raised.value.retryable
    assert raised.value.detail == f"nothing listens at 127.0.0.1:{port}"
    assert "RONDO_LLM__BASE_URL" in raised.value.advice


async def test_a_host_that_does_not_exist_is_said_to_have_no_address() -> None:
    with pytest.raises(LLMConnectionError) as raised:
        await collect(client("http://no-such-host.invalid/v1"))
    assert "no-such-host.invalid" in raised.value.detail


async def test_an_address_that_is_none_cannot_be_tried_again() -> None:
    with pytest.raises(LLMError) as raised:
        await collect(client("localhost:8080/v1"))
    assert not raised.value.retryable
    assert "RONDO_LLM__BASE_URL" in raised.value.advice


@pytest.mark.parametrize(
    ("status", "retryable", "advice"),
    [
        ("400 Bad Request", False, "llm settings"),
        ("401 Unauthorized", False, "RONDO_LLM__API_KEY"),
        ("404 Not Found", False, "RONDO_LLM__MODEL"),
        ("500 Internal Server Error", True, "later"),
        ("503 Service Unavailable", True, "later"),
    ],
)
async def test_an_http_error_keeps_its_status_its_words_and_gets_advice(
    status: str, retryable: bool, advice: str
) -> None:
    async def handler(call: Call) -> None:
        await call.reply(status, {"error": {"message": "the reason", "type": "t"}})

    error = await failure(handler)
    assert isinstance(error, LLMStatusError)
    assert error.status == int(status[:3])
    assert error.retryable is retryable
    assert "the reason" in error.detail
    assert advice in error.advice


async def test_a_web_page_instead_of_an_error_is_not_poured_over_the_person() -> None:
    async def handler(call: Call) -> None:
        await call.reply("502 Bad Gateway", "<!DOCTYPE html><html>…lots…</html>")

    error = await failure(handler)
    assert "a web page" in error.detail
    assert "lots" not in error.detail


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_refusal_for_haste_says_how_long_to_wait(form: str) -> None:
    async def handler(call: Call) -> None:
        moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
        wait = "2.5" if form == "seconds" else moment
        await call.reply(
            "429 Too Many Requests", {"error": {"message": "slow"}}, {"Retry-After": wait}
        )

    error = await failure(handler)
    assert error.retryable
    assert error.retry_after is not None
    assert error.retry_after == 2.5 if form == "seconds" else 90 < error.retry_after <= 100


async def test_a_silent_endpoint_runs_into_the_time_out() -> None:
    async def handler(call: Call) -> None:
        await call.gone.wait()

    error = await failure(handler, timeout_seconds=0.2)
    assert isinstance(error, LLMTimeoutError)
    assert error.retryable
    assert "0.2 s" in error.detail


async def test_a_silence_in_mid_stream_runs_into_the_time_out_too() -> None:
    async def handler(call: Call) -> None:
        await call.begin()
        await call.event(chunk({"content": "Hel"}))
        await call.gone.wait()

    assert isinstance(await failure(handler, timeout_seconds=0.2), LLMTimeoutError)


async def test_a_cut_stream_is_an_error_that_can_be_retried() -> None:
    error = await failure(playing(chunk({"content": "Hel"})))
    assert isinstance(error, LLMStreamError)
    assert error.retryable
    assert "in the middle" in error.detail


async def test_a_connection_that_breaks_in_mid_stream_is_a_broken_stream() -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        await call.send(b"Content-Length: 10000\r\n\r\n")
        await call.event(chunk({"content": "Hel"}))

    error = await failure(handler)
    assert isinstance(error, LLMStreamError)
    assert error.retryable


async def test_what_breaks_after_the_last_word_does_not_spoil_the_answer() -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        await call.send(b"Content-Length: 10000\r\n\r\n")
        await call.event(chunk({"content": "Hello"}, "stop"))

    async with endpoint(handler) as served:
        assert await collect(client(served.base_url)) == [TextDelta("Hello")]


@pytest.mark.parametrize("garbage", ['{"choices": [', "null", "[1]", '{"x": \udcff}'])
async def test_a_corrupt_chunk_is_an_error_of_the_stream(garbage: str) -> None:
    async def handler(call: Call) -> None:
        await call.begin()
        await call.event(chunk({"content": "Hel"}))
        await call.send(b"data: " + garbage.encode("utf-8", "surrogateescape") + b"\n\n")

    error = await failure(handler)
    assert isinstance(error, LLMStreamError)
    assert error.retryable


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "overloaded"}, LLMStreamError, True),
        ({"message": "slow down", "code": 429}, LLMStatusError, True),
        ({"message": "bad", "type": "invalid_request_error"}, LLMStatusError, False),
        (
            {"message": "wrong call", "code": "tool_use_failed", "status_code": 400},
            LLMStreamError,
            True,
        ),
    ],
)
async def test_an_error_in_mid_stream_is_told_in_its_own_words(
    error: dict[str, object], kind: type[LLMError], retryable: bool
) -> None:
    raised = await failure(playing(chunk({"content": "Hel"}), {"error": error}))
    assert isinstance(raised, kind)
    assert raised.retryable is retryable
    assert str(error["message"]) in raised.detail


@pytest.mark.parametrize("content", ["", " \n "])
async def test_an_answer_without_a_word_is_an_error(content: str) -> None:
    error = await failure(playing(chunk({"content": content}), chunk(finish="stop"), USAGE))
    assert isinstance(error, LLMStreamError)
    assert "neither words nor a tool call" in error.detail


async def test_an_answer_that_was_all_reasoning_says_which_bound_to_raise() -> None:
    error = await failure(playing(chunk({"reasoning": "hm"}), chunk(finish="length")))
    assert "RONDO_LLM__MAX_TOKENS" in error.advice


async def test_a_withheld_answer_is_not_asked_for_again() -> None:
    error = await failure(playing(chunk({"content": ""}), chunk(finish="content_filter")))
    assert not error.retryable


async def test_a_page_that_is_no_stream_is_recognised() -> None:
    async def handler(call: Call) -> None:
        await call.reply("200 OK", "<html>Welcome</html>")

    error = await failure(handler)
    assert "text/html" in error.detail
    assert "/v1" in error.advice


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


async def test_tool_calls_assemble_from_a_stream_that_is_cut_at_every_byte() -> None:
    pieces = [
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "add"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x": "你'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '好"}'}}]}),
        chunk(finish="tool_calls"),
    ]

    async def handler(call: Call) -> None:
        import json

        await call.begin()
        text = "".join(
            f": ping\r\ndata: {json.dumps(p, ensure_ascii=False)}\r\n\r\n" for p in pieces
        )
        for byte in text.encode():
            await call.send(bytes([byte]))

    assembler = MessageAssembler()
    async with endpoint(handler) as served:
        for part in await collect(client(served.base_url)):
            assembler.add(part)
    assert assembler.message().tool_calls == (
        ToolCall(id="a", name="add", arguments='{"x": "你好"}'),
    )


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


async def test_credentials_in_an_address_do_not_show_in_errors() -> None:
    with pytest.raises(LLMError) as raised:
        await collect(client("http://me:hunter2@127.0.0.1:9/v1"))
    assert "hunter2" not in raised.value.problem().in_words()


async def test_keys_in_the_words_of_an_endpoint_do_not_show() -> None:
    said = f"Wrong key s3cret-of-mine, not sk-proj-0123456789, nor {'a1' * 20}."

    async def handler(call: Call) -> None:
        await call.reply("401 Unauthorized", {"error": {"message": said}})

    async with endpoint(handler) as served:
        llm = OpenAICompatibleLLM(model="m", base_url=served.base_url, api_key="s3cret-of-mine")
        with pytest.raises(LLMStatusError) as raised:
            await collect(llm)
    assert "Wrong key ***, not ***, nor ***." in raised.value.detail
    assert "Wrong key" not in llm.status().detail
    assert "RONDO_LLM__API_KEY" in llm.status().detail


async def test_a_wait_that_is_too_long_fails_at_once_and_is_named() -> None:
    async def handler(call: Call) -> None:
        refusal = {"error": {"message": "slow"}}
        await call.reply("429 Too Many Requests", refusal, {"Retry-After": "3600"})

    async def no_wait(attempt: int, seconds: float, error: LLMError) -> None:
        raise AssertionError("it waits")

    async with endpoint(handler) as served:
        llm = client(served.base_url)
        with pytest.raises(LLMStatusError) as raised:
            await retrying(lambda: collect(llm), max_retries=3, on_retry=no_wait)
    assert "asks to wait 3,600 s" in raised.value.detail
    assert len(served.calls) == 1


@pytest.mark.parametrize("events", [(), ("[DONE]",)])
async def test_a_stream_with_nothing_in_it_is_called_empty(events: tuple[str, ...]) -> None:
    error = await failure(playing(*events))
    assert isinstance(error, LLMStreamError)
    assert "empty stream" in error.detail


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 10_000},
        {"reasoning": "x" * 10_000},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": "x" * 10_000}}]},
    ],
    ids=["words", "reasoning", "arguments without a name"],
)
async def test_an_answer_without_end_is_broken_off(delta: dict[str, Any]) -> None:
    async def handler(call: Call) -> None:
        await call.begin()
        while not call.gone.is_set():
            await call.event(chunk(delta))

    error = await failure(handler, max_tokens=100)
    assert isinstance(error, LLMStreamError)
    assert "65,536 characters" in error.detail
    assert not error.retryable


def test_chunks_without_a_word_come_to_an_end_too() -> None:
    reader = ChunkReader("m", longest=100)
    with pytest.raises(LLMStreamError, match="went on past 100"):
        [reader.read(chunk({})) for _ in range(101)]
