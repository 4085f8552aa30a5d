"""A conversation that is too long has an error of its own, however the endpoint says it."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import LLMContextError, LLMStatusError
from tests.support.llm.anthropic_endpoint import answer, collect, playing_events
from tests.support.llm.anthropic_endpoint import client as anthropic_client
from tests.support.llm.anthropic_endpoint import failure as anthropic_failure
from tests.support.llm.endpoint import Call, chunk, endpoint, playing
from tests.support.llm.openai_client import failure

pytestmark = pytest.mark.anyio

TOO_LONG = {
    "OpenAI": {
        "message": "This model's maximum context length is 8192 tokens. However, you requested"
        " 9000 tokens.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    },
    "only a code": {"message": "Bad request", "code": "context_length_exceeded"},
    "llama.cpp": {
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "code": 400,
    },
    "vLLM": {"message": "This model's maximum context length is 4096 tokens.", "code": 400},
    "Anthropic": {"message": "prompt is too long: 207791 tokens > 200000 maximum"},
    "Gemini": {
        "message": "The input token count (1200000) exceeds the maximum number of tokens allowed"
        " (1048576).",
        "code": 400,
    },
    "Bedrock": {"message": "Input is too long for requested model."},
    "Moonshot": {"message": "Invalid request: Your request exceeded model token limit: 8192"},
    "xAI": {"message": "This model's maximum prompt length is 131072."},
}


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Payload Too Large"])
@pytest.mark.parametrize("body", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_refusal_for_length_is_recognised(body: dict[str, Any], status: str) -> None:
    async def handler(call: Call) -> None:
        await call.reply(status, {"error": body})

    error = await failure(handler)
    assert isinstance(error, LLMContextError)
    assert not error.retryable
    assert str(body["message"])[:40] in error.detail
    assert "RONDO_LLM__CONTEXT_TOKENS" in error.advice
    assert error.problem().kind == "llm-context"


@pytest.mark.slow
@pytest.mark.parametrize("body", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_refusal_for_length_in_mid_stream_is_recognised(body: dict[str, Any]) -> None:
    error = await failure(playing(chunk({"content": "Hel"}), {"error": body}))
    assert isinstance(error, LLMContextError)


async def test_words_without_json_are_enough() -> None:
    async def handler(call: Call) -> None:
        await call.reply("400 Bad Request", "prompt is too long")

    assert isinstance(await failure(handler), LLMContextError)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("429 Too Many Requests", "Request too large for model `m`: tokens per minute (TPM)"),
        ("400 Bad Request", "max_tokens is too large: this model supports at most 4096"),
        ("400 Bad Request", "Unsupported value: 'temperature'"),
        ("413 Payload Too Large", "too many bytes"),
        ("500 Internal Server Error", "maximum context length"),
    ],
)
async def test_what_a_shorter_conversation_would_not_help_is_another_error(
    status: str, message: str
) -> None:
    async def handler(call: Call) -> None:
        await call.reply(status, {"error": {"message": message}})

    assert isinstance(await failure(handler), LLMStatusError)


async def test_too_many_calls_in_mid_stream_are_no_overflow() -> None:
    said = {"message": "Request too large for model `m`", "code": 429}
    error = await failure(playing(chunk({"content": "Hel"}), {"error": said}))
    assert isinstance(error, LLMStatusError)
    assert error.retryable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        ("400 Bad Request", "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        (
            "400 Bad Request",
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 9 + 8 > 10",
        ),
        ("413 Payload Too Large", "request_too_large", "Request exceeds the maximum size"),
    ],
)
async def test_anthropics_refusals_for_length_are_recognised(
    status: str, kind: str, message: str
) -> None:
    async def handler(call: Call) -> None:
        await call.reply(status, {"type": "error", "error": {"type": kind, "message": message}})

    assert isinstance(await anthropic_failure(handler), LLMContextError)


async def test_a_window_that_was_full_before_the_first_word_is_an_overflow() -> None:
    error = await anthropic_failure(
        playing_events(*answer("", stop="model_context_window_exceeded"))
    )
    assert isinstance(error, LLMContextError)


async def test_a_window_that_filled_up_while_the_answer_was_written_leaves_an_answer() -> None:
    handler = playing_events(*answer("It is", stop="model_context_window_exceeded"))
    async with endpoint(handler) as served:
        parts = await collect(anthropic_client(served.base_url))
    assert parts[0] == TextDelta("It is")
