"""Streams that break off, say nothing, make no sense or do not end: each has its own error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.domain.conversation.messages import ToolCall
from service.domain.conversation.stream_parts import MessageAssembler, TextDelta
from service.domain.errors import LLMError, LLMStatusError, LLMStreamError
from service.llm.openai.openai_chunks import ChunkReader
from tests.support.llm.endpoint import Call, chunk, endpoint, playing
from tests.support.llm.openai_client import USAGE, client, collect, failure

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("words", ["Hello", "<th"])
async def test_what_breaks_after_the_last_word_does_not_spoil_the_answer(words: str) -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        await call.send(b"Content-Length: 10000\r\n\r\n")
        await call.event(chunk({"content": words}, "stop"))

    async with endpoint(handler) as served:
        assert await collect(client(served.base_url)) == [TextDelta(words)]


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


@pytest.mark.parametrize(
    ("reason", "finish_reason"),
    [("length", "length"), ("content_filter", "content_filter"), ("stop", None), ("eos", None)],
)
async def test_an_answer_that_is_not_whole_says_why(reason: str, finish_reason: str | None) -> None:
    events = [{**chunk({"content": "Half"}), "id": "chatcmpl-1"}, chunk(finish=reason), USAGE]
    assembler = MessageAssembler()
    async with endpoint(playing(*events)) as served:
        for part in await collect(client(served.base_url)):
            assembler.add(part)
    assert assembler.message().text == "Half"
    assert (assembler.finish_reason, assembler.response_id) == (finish_reason, "chatcmpl-1")


async def test_an_id_without_end_is_not_kept_whole() -> None:
    long = {**chunk({"content": "Hi"}, "stop"), "id": "x" * 100_000 + "\ud83d"}
    assembler = MessageAssembler()
    async with endpoint(playing(json.dumps(long), json.dumps({**long, "id": "second"}))) as served:
        for part in await collect(client(served.base_url)):
            assembler.add(part)
    assert assembler.response_id == "x" * 256


async def test_a_page_that_is_no_stream_is_recognised() -> None:
    async def handler(call: Call) -> None:
        await call.reply("200 OK", "<html>Welcome</html>")

    error = await failure(handler)
    assert "text/html" in error.detail
    assert "/v1" in error.advice


async def test_tool_calls_assemble_from_a_stream_that_is_cut_at_every_byte() -> None:
    pieces = [
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "add"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x": "你'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '好"}'}}]}),
        chunk(finish="tool_calls"),
    ]

    async def handler(call: Call) -> None:
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
