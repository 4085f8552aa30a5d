"""Errors of the openai SDK, of its HTTP library and of endpoints, as errors of the house.

Each gets words for what happened and for what to do. Whether a call can be made again follows from
the class (see `service.domain.errors`).
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from service.domain.errors import (
    LLMConnectionError,
    LLMError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
)

if TYPE_CHECKING:
    import openai

_SETTINGS = "RONDO_LLM__BASE_URL (or OPENAI_BASE_URL)"
_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai)-[\w*-]{4,}"
    r"|(?<=bearer )(?=\S*\d)[^\s\"',;]{8,}"
    r"|(?<![\w-])(?=[a-z_-]*\d)[\w-]{32,}",
    re.ASCII | re.IGNORECASE,
)
_KEY_SETTINGS = "RONDO_LLM__API_KEY (or OPENAI_API_KEY)"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the words of an error need to know of the call."""

    base_url: str
    model: str
    timeout_seconds: float
    api_key: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        """Host and port, without credentials that an address may hold."""
        parts = urlsplit(self.base_url)
        try:
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            port = ""
        return f"{parts.hostname or self.base_url.rpartition('@')[2]}{port}"

    def without_keys(self, text: str) -> str:
        """What the endpoint said, with ``***`` for our key and for all that looks like one.

        >>> endpoint = Endpoint("http://x/v1", "m", 1, api_key="hunter2")
        >>> endpoint.without_keys("hunter2 is not sk-proj-1234, nor is Bearer abcd1234.xyz")
        '*** is not ***, nor is Bearer ***'
        """
        if self.api_key:
            text = re.sub(rf"(?<!\w){re.escape(self.api_key)}(?!\w)", "***", text)
        return _KEY.sub("***", text)


def as_llm_error(error: Exception, endpoint: Endpoint, *, streaming: bool) -> LLMError:
    """The error of the house for whatever a call raised.

    Args:
        error: of the SDK, of the HTTP library, or any other.
        endpoint: what was called.
        streaming: whether the answer had begun to arrive.
    """
    import httpx2
    import openai

    match error:
        case LLMError():
            return error
        case openai.APIStatusError():
            return _status_error(error, endpoint)
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return _timed_out(error, endpoint)
        case openai.APIConnectionError() | httpx2.TransportError():
            return _unreachable(error, endpoint, streaming=streaming)
        case openai.APIError():
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
                advice=f"Check {_SETTINGS} and the other llm settings; `rondo doctor` tries them.",
            )


def is_transport_error(error: Exception) -> bool:
    """Whether the connection failed, and not what was said over it."""
    import httpx2
    import openai

    return isinstance(error, openai.APIConnectionError | httpx2.TransportError)


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


def _status_error(error: openai.APIStatusError, endpoint: Endpoint) -> LLMStatusError:
    status = error.status_code
    wait = retry_after(error.response.headers, datetime.now(UTC))
    asks = "" if wait is None else f"; it asks to wait {f'{wait:,.1f}'.removesuffix('.0')} s"
    return LLMStatusError(
        status,
        f"{endpoint.place} answered {status}: {_said(error, endpoint)}{asks}",
        advice=_advice(status, endpoint),
        retry_after=wait,
    )


def _said(error: openai.APIError, endpoint: Endpoint) -> str:
    """The endpoint's own words, short and without keys. Web pages are not words."""
    body = error.body
    if isinstance(body, Mapping):
        words = body.get("message") or body.get("detail") or body.get("error")
    else:
        words = body
    text = " ".join(str(words or error.message).split())
    if text.lower().startswith(("<!doctype", "<html")):
        return "a web page"
    return endpoint.without_keys(text)[:500]  # in this order: half a key is a secret too


def _advice(status: int, endpoint: Endpoint) -> str:
    if status == 401:
        return f"The key is missing or wrong: set {_KEY_SETTINGS}."
    if status == 403:
        return f"The key may not use {endpoint.model}: check the account's rights."
    if status == 404:
        return (
            f"Check RONDO_LLM__MODEL (now {endpoint.model!r}) and {_SETTINGS}, which mostly ends"
            " in /v1."
        )
    if status == 413:
        return "The conversation is too long for the endpoint: lower RONDO_LLM__CONTEXT_TOKENS."
    if status == 429:
        return "Too many calls, or the account's credit is used up: wait, or check the account."
    if status >= 500:
        return "The endpoint has a fault of its own: try again later."
    return "Check the llm settings against what the endpoint supports."


def _timed_out(error: Exception, endpoint: Endpoint) -> LLMTimeoutError:
    connecting = any(type(cause).__name__ == "ConnectTimeout" for cause in _causes(error))
    what = "no connection came about" if connecting else "nothing came"
    wait = "in time" if connecting else f"for {endpoint.timeout_seconds:g} s"
    return LLMTimeoutError(
        f"{endpoint.place}: {what} {wait}",
        advice="Try again; RONDO_LLM__TIMEOUT_SECONDS says how long a silence may be.",
    )


def _unreachable(error: Exception, endpoint: Endpoint, *, streaming: bool) -> LLMError:
    causes = list(_causes(error))
    place = endpoint.place
    detail = f"{place}: {endpoint.without_keys(_root_words(causes))[:300]}"
    advice = f"Check the network and {_SETTINGS}."
    if any(
        type(cause).__name__ in ("UnsupportedProtocol", "LocalProtocolError") for cause in causes
    ):
        wrong = LLMError(detail, advice=f"Correct {_SETTINGS}, or the key: no call can be made.")
        wrong.title = LLMConnectionError.title
        return wrong
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        detail = f"the name {place} cannot be resolved"
    elif any(isinstance(cause, ssl.SSLError) for cause in causes):
        advice = "Check the certificate, or set SSL_CERT_FILE to your own authority's."
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        detail = f"nothing listens at {place}"
        advice = f"Start the endpoint, or correct {_SETTINGS}."
    elif streaming:
        return LLMStreamError(f"{place} broke the connection off", advice="Try again.")
    return LLMConnectionError(detail, advice=advice)


def _root_words(causes: list[BaseException]) -> str:
    for cause in reversed(causes):
        if str(cause):
            return str(cause)
    return type(causes[-1]).__name__


def _in_stream(error: openai.APIError, endpoint: Endpoint) -> LLMError:
    """An error object that came where a chunk should have been."""
    body = error.body if isinstance(error.body, Mapping) else {}
    said = f"{endpoint.place} reported in mid-stream: {_said(error, endpoint)}"
    # The model wrote a call that the endpoint itself found wrong: another try can go well.
    if body.get("code") != "tool_use_failed":
        for name in ("status_code", "status", "code"):
            status = str(body.get(name, ""))
            if status.isdigit() and 400 <= int(status) < 600:
                return LLMStatusError(int(status), said, advice=_advice(int(status), endpoint))
        if body.get("type") == "invalid_request_error":
            return LLMStatusError(400, said, advice=_advice(400, endpoint))
    return LLMStreamError(said, advice="Try again; if it goes on, ask the endpoint's provider.")


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
