"""What can go wrong with Anthropic's API and its streams: each has its own error."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest

from service.domain.conversation.stream_parts import MessageAssembler, TextDelta, TokenUsage
from service.domain.errors import (
    LLMConnectionError,
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
)
from service.llm.anthropic.anthropic_messages import AnthropicModel
from tests.support.llm.anthropic_endpoint import (
    HELLO,
    Event,
    answer,
    arguments,
    block,
    client,
    collect,
    end,
    failure,
    playing_events,
    start,
    stream_of,
    text,
    thoughts,
    without_abilities,
)
from tests.support.llm.endpoint import Call, endpoint
from tests.support.llm.replay import (
    Outcome,
    Replay,
    in_two,
    one_by_one,
    outcome,
    with_other_ends_of_line,
)

pytestmark = pytest.mark.anyio

RICH = stream_of(
    [
        start(cache_read_input_tokens=4),
        {"type": "ping"},
        *block(0, "thinking", *thoughts("嗯 ", "😀", signature="c2ln"), thinking="", signature=""),
        *block(1, "redacted_thinking", data="b3Bh"),
        *block(2, "text", *text("你", "好"), text=""),
        *block(3, "tool_use", *arguments('{"x": "', '好"}'), id="a", name="add", input={}),
        *block(4, "tool_use", id="b", name="now", input={"zone": "东京"}),
        *block(5, "tool_use", *arguments("{}"), id="c", name="now", input={"zone": "?"}),
        *end("tool_use"),
    ]
).encode()
RICH_OUTCOME = Outcome(
    (
        ("think", "嗯 😀", "c2ln"),
        ("think", "", "redacted_thinking:b3Bh"),
        ("text", "你好", None),
    ),
    (("a", "add", '{"x": "好"}'), ("b", "now", '{"zone": "东京"}'), ("c", "now", "{}")),
    TokenUsage("claude-x", 13, 2, cached_input_tokens=4),
)


@pytest.fixture(scope="module")
async def player() -> AsyncIterator[tuple[AnthropicModel, Replay]]:
    replay = Replay()
    llm = client("http://127.0.0.1", transport=replay)
    yield llm, replay
    await llm.aclose()


@pytest.mark.slow
async def test_a_stream_comes_to_the_same_wherever_its_bytes_are_cut(
    player: tuple[AnthropicModel, Replay],
) -> None:
    for pieces in in_two(RICH):
        assert await outcome(*player, pieces) == RICH_OUTCOME, f"cut at {len(pieces[0])}"
    for variant in with_other_ends_of_line(RICH):
        assert await outcome(*player, one_by_one(variant)) == RICH_OUTCOME


@pytest.mark.slow
async def test_a_stream_that_ends_too_early_is_never_taken_for_a_whole_one(
    player: tuple[AnthropicModel, Replay],
) -> None:
    for cut in range(len(RICH)):
        result = await outcome(*player, [RICH[:cut]])
        assert result == RICH_OUTCOME or result.error.startswith("llm-stream (retryable: True)")


@pytest.mark.parametrize(
    ("reason", "finish_reason"),
    [("max_tokens", "length"), ("model_context_window_exceeded", "length"), ("end_turn", None)],
)
async def test_an_answer_that_is_not_whole_says_why(reason: str, finish_reason: str | None) -> None:
    begin = start()
    begin["message"]["id"] = "msg_1"
    handler = playing_events(begin, *block(0, "text", *text("Half"), text=""), *end(reason))
    assembler = MessageAssembler()
    async with endpoint(handler) as served:
        for part in await collect(client(served.base_url)):
            assembler.add(part)
    assert assembler.message().text == "Half"
    assert assembler.finish_reason == finish_reason
    assert assembler.response_id == "msg_1"


BROKEN: dict[str, tuple[list[Event], str]] = {
    "empty": ([], "empty stream"),
    "cut": ([start(), *block(0, "text", *text("Hel"), text="")], "in the middle"),
    "says nothing": ([start(), *end()], "neither words nor a tool call"),
    "only thinks": (
        [start(), *block(0, "thinking", *thoughts("hm", signature="s")), *end()],
        "neither words nor a tool call",
    ),
    "thinks to the end": (
        [start(), *block(0, "thinking", *thoughts("hm")), *end("max_tokens")],
        "used up all its tokens",
    ),
    "a stray piece": ([start(), *block(0, "text", *text("a"))[1:]], "before its beginning"),
    "a block without a number": (
        [start(), {"type": "content_block_start", "content_block": {"type": "text"}}],
        "no number",
    ),
    "a call without a name": ([start(), *block(0, "tool_use", id="a", input={})], "no name"),
}


@pytest.mark.parametrize(("events", "words"), BROKEN.values(), ids=BROKEN)
async def test_a_stream_that_is_no_answer_is_an_error_that_can_be_retried(
    events: list[Event], words: str
) -> None:
    error = await failure(playing_events(*events))
    assert isinstance(error, LLMStreamError)
    assert error.retryable
    assert words in error.detail


@pytest.mark.parametrize("garbage", [b'{"type": ', b"[1]", b'{"x": \xff}'])
async def test_a_corrupt_event_is_an_error_of_the_stream(garbage: bytes) -> None:
    async def handler(call: Call) -> None:
        await call.begin()
        await call.send(stream_of([start()]).encode())
        await call.send(b"event: content_block_delta\ndata: " + garbage + b"\n\n")

    error = await failure(without_abilities(handler))
    assert isinstance(error, LLMStreamError)
    assert error.retryable


async def test_a_connection_that_breaks_in_mid_stream_is_a_broken_stream() -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        await call.send(b"Content-Length: 10000\r\n\r\n")
        await call.send(stream_of([start(), *block(0, "text", *text("Hel"), text="")]).encode())

    error = await failure(without_abilities(handler))
    assert isinstance(error, LLMStreamError)
    assert error.retryable


async def test_what_breaks_after_the_last_word_does_not_spoil_the_answer() -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        await call.send(b"Content-Length: 10000\r\n\r\n")
        await call.send(stream_of(answer("Hello")[:-1]).encode())

    async with endpoint(without_abilities(handler)) as served:
        assert (await collect(client(served.base_url)))[0] == TextDelta("Hello")


@pytest.mark.parametrize(
    ("status", "retryable", "advice"),
    [
        ("400 Bad Request", False, "llm settings"),
        ("401 Unauthorized", False, "ANTHROPIC_API_KEY"),
        ("402 Payment Required", False, "account"),
        ("404 Not Found", False, "RONDO_LLM__MODEL"),
        ("500 Internal Server Error", True, "later"),
        ("529 Overloaded", True, "later"),
    ],
)
async def test_an_http_error_keeps_its_status_its_words_and_gets_advice(
    status: str, retryable: bool, advice: str
) -> None:
    async def handler(call: Call) -> None:
        await call.reply(status, {"type": "error", "error": {"type": "t", "message": "reason"}})

    error = await failure(handler)
    assert isinstance(error, LLMStatusError)
    assert error.status == int(status[:3])
    assert error.retryable is retryable
    assert "reason" in error.detail
    assert advice in error.advice


async def test_a_refusal_for_haste_says_how_long_to_wait_and_is_not_tried_again_by_itself() -> None:
    calls: list[str] = []

    async def handler(call: Call) -> None:
        calls.append(call.path)
        error = {"type": "rate_limit_error", "message": "slow"}
        body = {"type": "error", "error": error}
        await call.reply("429 Too Many Requests", body, {"Retry-After": "2.5"})

    error = await failure(without_abilities(handler))
    assert error.retryable
    assert error.retry_after == 2.5
    assert calls == ["/v1/messages"]


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("overloaded_error", 529, True),
        ("rate_limit_error", 429, True),
        ("api_error", 500, True),
        ("invalid_request_error", 400, False),
    ],
)
async def test_an_error_in_mid_stream_is_told_in_its_own_words(
    kind: str, status: int, retryable: bool
) -> None:
    broken = {"type": "error", "error": {"type": kind, "message": "the reason"}}
    events = [start(), *block(0, "text", *text("Hel"), text=""), broken]
    error = await failure(playing_events(*events))
    assert isinstance(error, LLMStatusError)
    assert (error.status, error.retryable) == (status, retryable)
    assert "in mid-stream: the reason" in error.detail


async def test_an_error_of_an_unknown_kind_in_mid_stream_can_be_retried() -> None:
    error = await failure(playing_events(start(), {"type": "error", "error": {"message": "hm"}}))
    assert isinstance(error, LLMStreamError)
    assert "hm" in error.detail


async def test_a_refusal_of_the_model_is_not_asked_for_again_and_says_why() -> None:
    refused: Event = {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "too risky"}},
        "usage": {"output_tokens": 2},
    }
    events = [start(), *block(0, "text", *text("Let me"), text=""), refused]
    error = await failure(playing_events(*events))
    assert not error.retryable
    assert "too risky" in error.detail


async def test_a_silent_endpoint_runs_into_the_time_out() -> None:
    async def handler(call: Call) -> None:
        await call.gone.wait()

    error = await failure(without_abilities(handler), timeout_seconds=0.2)
    assert isinstance(error, LLMTimeoutError)


async def test_a_silence_in_mid_stream_runs_into_the_time_out_too() -> None:
    async def handler(call: Call) -> None:
        await call.begin()
        await call.send(stream_of([start()]).encode())
        await call.gone.wait()

    error = await failure(without_abilities(handler), timeout_seconds=0.2)
    assert isinstance(error, LLMTimeoutError)


async def test_an_endpoint_that_nobody_serves_is_named_with_advice() -> None:
    with socket.socket() as taken:  # by us, who do not listen: nobody else gets it meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(LLMConnectionError) as raised:
            await collect(client(f"http://127.0.0.1:{port}"))
    assert raised.value.detail == f"nothing listens at 127.0.0.1:{port}"
    assert "ANTHROPIC_BASE_URL" in raised.value.advice


async def test_an_answer_without_end_is_broken_off() -> None:
    delta: Event = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "x" * 10_000},
    }

    async def handler(call: Call) -> None:
        await call.begin()
        await call.send(stream_of([start(), *block(0, "text", text="")[:1]]).encode())
        while not call.gone.is_set():
            await call.send(stream_of([delta]).encode())

    error = await failure(without_abilities(handler), max_tokens=100)
    assert isinstance(error, LLMStreamError)
    assert not error.retryable


async def test_keys_in_the_words_of_an_endpoint_do_not_show() -> None:
    async def handler(call: Call) -> None:
        said = "Wrong key s3cret-of-mine, not sk-ant-api03-0123456789."
        error = {"type": "authentication_error", "message": said}
        await call.reply("401 Unauthorized", {"type": "error", "error": error})

    async with endpoint(handler) as served:
        address = served.base_url.removesuffix("/v1")
        llm = AnthropicModel(model="m", base_url=address, api_key="s3cret-of-mine")
        with pytest.raises(LLMError) as raised:
            await collect(llm)
    assert "Wrong key ***, not ***." in raised.value.detail
    assert not llm.status().ready
    assert "ANTHROPIC_API_KEY" in llm.status().detail
    assert "Wrong" not in llm.status().detail


async def test_the_status_is_good_again_after_a_call_that_succeeds() -> None:
    overloaded = [True]

    async def handler(call: Call) -> None:
        if overloaded:
            overloaded.clear()
            error = {"type": "overloaded_error", "message": "Overloaded"}
            await call.reply("529 Overloaded", {"type": "error", "error": error})
        else:
            await playing_events(*answer("ok"))(call)

    async with endpoint(without_abilities(handler)) as served:
        llm = client(served.base_url)
        with pytest.raises(LLMStatusError):
            [part async for part in llm.stream(HELLO)]
        assert not llm.status().ready
        assert [part async for part in llm.stream(HELLO)]
        assert llm.status().ready
        await llm.aclose()
