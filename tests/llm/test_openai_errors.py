"""Every way in which an endpoint can refuse a call, or not be there, has its own error."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from service.domain.errors import (
    LLMConnectionError,
    LLMError,
    LLMStatusError,
    LLMTimeoutError,
)
from service.llm.generate import retrying
from service.llm.openai.openai_compatible import OpenAIModel
from tests.support.llm.endpoint import Call, chunk, endpoint
from tests.support.llm.openai_client import client, collect, failure

pytestmark = pytest.mark.anyio


async def test_an_endpoint_that_nobody_serves_is_named_with_advice() -> None:
    with socket.socket() as taken:  # by us, who do not listen: nobody else gets it meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
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


async def test_credentials_in_an_address_do_not_show_in_errors() -> None:
    with pytest.raises(LLMError) as raised:
        await collect(client("http://me:hunter2@127.0.0.1:9/v1"))
    assert "hunter2" not in raised.value.problem().in_words()


async def test_keys_in_the_words_of_an_endpoint_do_not_show() -> None:
    said = f"Wrong key s3cret-of-mine, not sk-proj-0123456789, nor {'a1' * 20}."

    async def handler(call: Call) -> None:
        await call.reply("401 Unauthorized", {"error": {"message": said}})

    async with endpoint(handler) as served:
        llm = OpenAIModel(model="m", base_url=served.base_url, api_key="s3cret-of-mine")
        with pytest.raises(LLMStatusError) as raised:
            await collect(llm)
    assert "Wrong key ***, not ***, nor ***." in raised.value.detail
    assert "Wrong key" not in llm.status().detail
    assert "RONDO_LLM__API_KEY" in llm.status().detail
