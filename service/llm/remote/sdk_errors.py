"""Errors of the SDKs, of their HTTP library and of endpoints, as errors of Rondo.

Each gets words for what happened and for what to do. Whether a call can be made again follows from
the class (see `service.domain.errors`). The openai and the anthropic SDK come from one generator:
their errors have the same names and fields.

How endpoints say that a conversation is longer than the model's window.

There is no common form: some give a code, most only a sentence.

>>> is_too_long("This model's maximum context length is 8192 tokens.")
True
>>> is_too_long("max_tokens is too large: this model supports at most 4096 completion tokens")
False
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any

from service.domain.errors import (
    LLMConnectionError,
    LLMContextError,
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
)
from service.domain.redirects import redirect
from service.llm.remote.endpoints import Endpoint, silence

_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size|limit)"  # OpenAI, vLLM, llama.cpp, Mistral, OpenRouter
    r"|maximum (?:prompt|input) length"  # xAI
    r"|(?:prompt|inputs?|request|messages|conversation) (?:is|are) too (?:long|large)"  # Claude
    r"|request too large for model|body too large for .{1,60}model"  # Groq, GitHub
    r"|request_too_large"
    r"|too many (?:input |total |prompt )?tokens\b(?! per)"  # Bedrock, Cohere
    r"|input (?:token count|length|tokens?)\b.{0,80}\bexceed"  # Gemini
    r"|exceed\w* (?:the )?model(?:'s)? token limit"  # Moonshot
    r"|prompt exceeds max length"  # Zhipu
    r"|range of input length"  # DashScope
    r"|inputs` tokens \+ `max_new_tokens",  # text-generation-inference
    re.IGNORECASE | re.DOTALL,
)


def is_too_long(said: str) -> bool:
    """Whether an endpoint's words for a refused request mean that it was too long."""
    return _TOO_LONG.search(said) is not None


_TOO_LONG_STATUSES = (400, 413, 422)
_STATUS_OF_TYPE = {
    # https://platform.claude.com/docs/en/api/errors: in mid-stream there is no other status.
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def as_llm_error(error: Exception, endpoint: Endpoint, *, streaming: bool) -> LLMError:
    """The error of Rondo for whatever a call raised.

    Args:
        error: of the SDK, of the HTTP library, or any other.
        endpoint: what was called.
        streaming: whether the answer had begun to arrive.
    """
    if isinstance(error, LLMError):
        return error
    import httpx2  # loaded by now, with the SDK: whatever else is raised comes from a call

    sdk: Any = import_module(endpoint.vendor)
    match error:
        case sdk.APIStatusError() if (
            error.status_code < 400 and "location" in error.response.headers
        ):
            return _redirected(error.response, endpoint)
        case sdk.APIStatusError() if error.status_code >= 300:  # below: an error within a stream
            return _status_error(error, endpoint)
        case sdk.APITimeoutError() | httpx2.TimeoutException():
            return _timed_out(error, endpoint)
        case sdk.APIConnectionError() | httpx2.TransportError():
            return _unreachable(error, endpoint, streaming=streaming)
        case sdk.APIError():
            return _in_stream(error, endpoint)
        case ValueError() if streaming:  # corrupt JSON, or bytes that are not UTF-8
            return LLMStreamError(
                f"{endpoint.place} sent a chunk that cannot be read"
                f" ({endpoint.without_keys(str(error))})",
                advice="Try again; if it goes on, the endpoint or a proxy before it is at fault.",
            )
        case _:
            return LLMError(
                f"the call of {endpoint.model} at {endpoint.place} failed:"
                f" {type(error).__name__}: {endpoint.without_keys(str(error))}",
                advice=f"Check {endpoint.address_setting} and the other llm settings;"
                " `rondo doctor` tries them.",
            )


def is_transport_error(error: Exception, endpoint: Endpoint) -> bool:
    """Whether the connection failed, and not what was said over it."""
    import httpx2

    sdk: Any = import_module(endpoint.vendor)
    return isinstance(error, (sdk.APIConnectionError, httpx2.TransportError))


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait, from ``Retry-After`` (seconds or a date, RFC 9110) or ``retry-after-ms``.

    >>> retry_after({"retry-after": "1.5"}, datetime(2026, 1, 1, tzinfo=UTC))
    1.5
    >>> date = {"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}
    >>> retry_after(date, datetime(2026, 1, 1, tzinfo=UTC))
    30.0
    >>> retry_after({"retry-after": "soon"}, datetime(2026, 1, 1, tzinfo=UTC)) is None
    True
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def said_by(error: Any, endpoint: Endpoint) -> str:
    """The endpoint's own words, short and without keys. Web pages are not words.

    Args:
        error: an ``APIError`` of an SDK.
        endpoint: whose key is taken out.
    """
    body = _error_object(error.body)
    words = body.get("message") or body.get("detail") or body.get("error")
    if not words and not isinstance(error.body, Mapping):
        words = error.body
    text = " ".join(str(words or error.message).split())
    if text.lower().startswith(("<!doctype", "<html")):
        return "a web page"
    return endpoint.without_keys(text)[:500]  # in this order: half a key is a secret too


def _error_object(body: object) -> Mapping[str, Any]:
    """The object that tells of the error: the openai SDK has unwrapped it, the other has not."""
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _status_error(error: Any, endpoint: Endpoint) -> LLMError:
    status = error.status_code
    said = said_by(error, endpoint)
    if status in _TOO_LONG_STATUSES and _means_too_long(error, said):
        return _too_long(f"{endpoint.place} answered {status}: {said}")
    wait = retry_after(error.response.headers, datetime.now(UTC))
    asks = "" if wait is None else f"; it asks to wait {f'{wait:,.1f}'.removesuffix('.0')} s"
    return LLMStatusError(
        status,
        f"{endpoint.place} answered {status}: {said}{asks}",
        advice=_advice(status, endpoint),
        retry_after=wait,
    )


def _redirected(response: Any, endpoint: Endpoint) -> LLMStatusError:
    asked = str(response.request.url)
    location = endpoint.without_keys(response.headers["location"])
    elsewhere = redirect(asked, endpoint.base_url, location)
    return LLMStatusError(
        response.status_code,
        elsewhere.detail(endpoint.place),
        advice=elsewhere.advice(endpoint.address_setting),
    )


def _means_too_long(error: Any, said: str) -> bool:
    body = _error_object(error.body)
    return is_too_long(f"{body.get('code')} {body.get('type')} {said}")


def _too_long(detail: str) -> LLMContextError:
    return LLMContextError(
        detail,
        advice="Begin a new conversation, or let RONDO_LLM__CONTEXT_TOKENS name the model's own"
        " window, so that what is old is left out in time.",
    )


def _advice(status: int, endpoint: Endpoint) -> str:
    if status == 401:
        return f"The key is missing or wrong: set {endpoint.key_setting}."
    if status == 402:
        return "The account's credit is used up: check the account."
    if status == 403:
        return f"The key may not use {endpoint.model}: check the account's rights."
    if status == 404:
        return (
            f"Check {endpoint.model_setting} (now {endpoint.model!r}) and"
            f" {endpoint.address_setting}, which {endpoint.form_of_address}."
        )
    if status == 413:
        return "The conversation is too long for the endpoint: lower RONDO_LLM__CONTEXT_TOKENS."
    if status == 429:
        return "Too many calls, or the account's credit is used up: wait, or check the account."
    if status >= 500:
        return "The endpoint has a fault of its own: try again later."
    return "Check the llm settings against what the endpoint supports."


def _timed_out(error: Exception, endpoint: Endpoint) -> LLMTimeoutError:
    if any(type(cause).__name__ == "ConnectTimeout" for cause in _causes(error)):
        return LLMTimeoutError(
            f"{endpoint.place}: no connection came about in time",
            advice=f"Check the network and {endpoint.address_setting}, and try again.",
        )
    return silence(endpoint)


def _unreachable(error: Exception, endpoint: Endpoint, *, streaming: bool) -> LLMError:
    causes = list(_causes(error))
    place = endpoint.place
    detail = f"{place}: {endpoint.without_keys(_root_words(causes))[:300]}"
    advice = f"Check the network and {endpoint.address_setting}."
    if any(
        type(cause).__name__ in ("UnsupportedProtocol", "LocalProtocolError") for cause in causes
    ):
        wrong = LLMError(
            detail,
            advice=f"Correct {endpoint.address_setting}, or the key: no call can be made.",
        )
        wrong.title = LLMConnectionError.title
        return wrong
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        detail = f"the name {place} cannot be resolved"
    elif any(isinstance(cause, ssl.SSLError) for cause in causes):
        advice = "Check the certificate, or set SSL_CERT_FILE to your own authority's."
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        detail = f"nothing listens at {place}"
        advice = f"Start the endpoint, or correct {endpoint.address_setting}."
    elif streaming:
        return LLMStreamError(f"{place} broke the connection off", advice="Try again.")
    return LLMConnectionError(detail, advice=advice)


def _root_words(causes: list[BaseException]) -> str:
    for cause in reversed(causes):
        if str(cause):
            return str(cause)
    return type(causes[-1]).__name__


def _in_stream(error: Any, endpoint: Endpoint) -> LLMError:
    """An error object that came where a chunk should have been."""
    body = _error_object(error.body)
    words = said_by(error, endpoint)
    said = f"{endpoint.place} reported in mid-stream: {words}"
    status = _status_in(body, endpoint)
    if status != 429 and _means_too_long(error, words):
        return _too_long(said)
    if status is None:
        return LLMStreamError(said, advice="Try again; if it goes on, ask the endpoint's provider.")
    return LLMStatusError(status, said, advice=_advice(status, endpoint))


def _status_in(body: Mapping[str, Any], endpoint: Endpoint) -> int | None:
    """The HTTP status that an error object stands for; None where it names none."""
    if body.get("code") == "tool_use_failed":
        # The model wrote a call that the endpoint itself found wrong: another try can go well.
        return None
    for name in ("status_code", "status", "code"):
        status = str(body.get(name, ""))
        if status.isdigit() and 400 <= int(status) < 600:
            return int(status)
    if endpoint.vendor == "anthropic":
        return _STATUS_OF_TYPE.get(str(body.get("type")))
    return 400 if body.get("type") == "invalid_request_error" else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, outermost first (exception groups: all their members)."""
    seen: set[int] = set()
    waiting = [error] if error is not None else []
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        waiting.extend(cause for cause in (current.__cause__, current.__context__) if cause)
