"""An endpoint that sends its callers elsewhere is told as that, and nothing follows it."""

from __future__ import annotations

import pytest

from service.domain.errors import LLMError, LLMStatusError
from tests.support.llm import anthropic_endpoint as anthropic_support
from tests.support.llm import openai_client as openai_support
from tests.support.llm.endpoint import Call, Endpoint, Handler, endpoint

pytestmark = pytest.mark.anyio

SECRET = "hunter2-0123"


def redirecting(location: str, status: str = "307 Temporary Redirect") -> Handler:
    async def handler(call: Call) -> None:
        await call.reply(status, "<html>over there</html>", {"Location": location})

    return handler


async def refusal(served: Endpoint, kind: str = "openai") -> LLMError:
    support = openai_support if kind == "openai" else anthropic_support
    llm = support.client(served.base_url)
    with pytest.raises(LLMError) as raised:
        await support.collect(llm)
    return raised.value


@pytest.mark.slow
@pytest.mark.parametrize(
    "status",
    ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 P"],
)
@pytest.mark.parametrize(
    ("kind", "path"), [("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")]
)
async def test_a_redirect_is_told_with_the_address_to_set_and_is_not_followed(
    kind: str, path: str, status: str
) -> None:
    async with endpoint(redirecting("http://127.0.0.1:9/")) as elsewhere:
        there = elsewhere.base_url.removesuffix("/v1") + "/api"
        async with endpoint(redirecting(there + path, status)) as served:
            error = await refusal(served, kind)
    assert isinstance(error, LLMStatusError)
    assert error.status == int(status[:3])
    assert not error.retryable
    assert f"redirects to {there}{path}" in error.detail
    base = there + "/v1" if kind == "openai" else there
    assert f"Set RONDO_LLM__BASE_URL (or {kind.upper()}_BASE_URL) to {base} if" in error.advice
    assert elsewhere.calls == []


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (
            f"https://me:{SECRET}@login.example/in?token={SECRET}#{SECRET}",
            "https://login.example/in",
        ),
        (f"/login?next={SECRET}", "/login"),
        (f"//login.example?key={SECRET}", "http://login.example"),
        (f"ftp://me:{SECRET}@x.example/", "an address that cannot be read"),
        (f"http://x.example:{SECRET}/", "an address that cannot be read"),
        (f"http://x.example/{'a' * 900}/{SECRET}", "an address that cannot be read"),
        ("https://login.example/sk-proj-0123456789", "https://login.example/***"),
        ("", "/v1/chat/completions"),
    ],
)
async def test_secrets_of_a_location_are_not_shown_and_no_wrong_base_is_advised(
    location: str, target: str
) -> None:
    async with endpoint(redirecting(location)) as served:
        error = await refusal(served)
    words = error.problem().in_words()
    assert target in words
    assert SECRET not in words
    assert "address of the API itself" in words


async def test_the_status_is_everybodys_and_does_not_repeat_the_address() -> None:
    async with endpoint(redirecting(f"https://elsewhere.example/{SECRET}")) as served:
        llm = openai_support.client(served.base_url)
        with pytest.raises(LLMError, match="elsewhere"):
            await openai_support.collect(llm)
    assert not llm.status().ready
    assert "`rondo doctor` says to which" in llm.status().detail
    assert "elsewhere" not in llm.status().detail


async def test_an_endpoint_that_sends_to_itself_is_not_advised_as_what_to_set() -> None:
    async def handler(call: Call) -> None:
        await redirecting(f"http://{call.headers['host']}{call.path}")(call)

    async with endpoint(handler) as served:
        error = await refusal(served)
        assert len(served.calls) == 1
    assert "address of the API itself" in error.advice


async def test_a_redirect_to_nowhere_is_an_answer_with_its_status() -> None:
    async def handler(call: Call) -> None:
        await call.reply("304 Not Modified", {})

    async with endpoint(handler) as served:
        error = await refusal(served)
    assert "answered 304" in error.detail
