"""Where a model is called, the words that people know the place by, and how long it may take."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

import anyio

from service.domain.errors import LLMTimeoutError

Vendor = Literal["openai", "anthropic"]
"""Whose API an endpoint speaks, and so by whose variables it may have been set up."""

DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"
DEFAULT_ANTHROPIC_MODEL = "claude-haiku-5-5"

MOST_ANSWER_BYTES = 256 * 2**20
"""Of one answer: 128,000 tokens, each in a chunk of its own with two kilobytes around it."""

_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai)-[\w*-]{4,}"
    r"|(?<=bearer )(?=\S*\d)[^\s\"',;]{8,}"
    r"|(?<![\w-])(?=[a-z_-]*\d)[\w-]{32,}",
    re.ASCII | re.IGNORECASE,
)


def from_environment(
    vendor: Literal["OPENAI", "ANTHROPIC"], base_url: str | None, api_key: str | None
) -> tuple[str, str]:
    """Address and key; what is None is taken from the vendor's variables, as its SDK does.

    A key in a variable is sent to the address of the variables only, or to the vendor's own.
    """
    if base_url is not None:
        return base_url, api_key or ""
    if api_key is None:
        api_key = os.environ.get(f"{vendor}_API_KEY", "")
    return os.environ.get(f"{vendor}_BASE_URL", ""), api_key


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a call, and the words of its errors, need to know of the endpoint."""

    base_url: str
    model: str
    timeout_seconds: float
    api_key: str = field(default="", repr=False)
    vendor: Vendor = "openai"
    max_call_seconds: float = 3600
    configured_as: str = ""
    """The model's name in the setting ``models``, where it has an endpoint of its own there."""
    api_key_env: str = ""
    """The variable that the key is taken from, where a setting names one."""
    most_answer_bytes: int = MOST_ANSWER_BYTES
    """Of one streamed answer; then it is broken off."""

    @property
    def place(self) -> str:
        """Host and port, without credentials that an address may hold."""
        parts = urlsplit(self.base_url)
        try:
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            port = ""
        return f"{parts.hostname or self.base_url.rpartition('@')[2]}{port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def address_setting(self) -> str:
        """What to correct when the address is wrong."""
        return self._setting("BASE_URL")

    @property
    def key_setting(self) -> str:
        """What to correct when the key is wrong."""
        if self.api_key_env:
            return f"{self.api_key_env}, which api_key_env names, where the daemon is started"
        return self._setting("API_KEY")

    @property
    def model_setting(self) -> str:
        """What to correct when there is no such model."""
        return f"RONDO_{self._section}__MODEL"

    @property
    def _section(self) -> str:
        return f"MODELS__{self.configured_as.upper()}" if self.configured_as else "LLM"

    def _setting(self, name: str) -> str:
        common = "" if self.configured_as else f" (or {self.vendor.upper()}_{name})"
        return f"RONDO_{self._section}__{name}{common}"

    @property
    def form_of_address(self) -> str:
        """What a right address looks like."""
        return "mostly ends in /v1" if self.vendor == "openai" else "ends before /v1/messages"

    def without_keys(self, text: str) -> str:
        """What the endpoint said, with ``***`` for our key and for all that looks like one.

        >>> endpoint = Endpoint("http://x/v1", "m", 1, api_key="hunter2")
        >>> endpoint.without_keys("hunter2 is not sk-proj-1234, nor is Bearer abcd1234.xyz")
        '*** is not ***, nor is Bearer ***'
        """
        if self.api_key:
            text = re.sub(rf"(?<!\w){re.escape(self.api_key)}(?!\w)", "***", text)
        return _KEY.sub("***", text)


@contextmanager
def before(deadline: float, endpoint: Endpoint) -> Iterator[None]:
    """Break off what is not done by then. Nothing may be yielded to others from inside.

    Args:
        deadline: of the whole call, on the clock of the event loop.
        endpoint: what is called.

    Raises:
        LLMTimeoutError: it was broken off.
    """
    with anyio.CancelScope(deadline=deadline) as scope:
        yield
    if scope.cancelled_caught:
        raise took_too_long(endpoint)


def silence(endpoint: Endpoint) -> LLMTimeoutError:
    """Nothing came for as long as a silence may be."""
    return LLMTimeoutError(
        f"{endpoint.place}: nothing came for {endpoint.timeout_seconds:g} s",
        advice="Try again; RONDO_LLM__TIMEOUT_SECONDS says how long a silence may be.",
    )


def took_too_long(endpoint: Endpoint) -> LLMTimeoutError:
    """The whole call did not come to its end in time."""
    late = LLMTimeoutError(
        f"{endpoint.place} had not ended its answer after {endpoint.max_call_seconds:g} s, and was"
        " broken off",
        advice="Raise RONDO_LLM__MAX_CALL_SECONDS if answers may take that long, or lower"
        " RONDO_LLM__MAX_TOKENS.",
    )
    late.retryable = False  # once more would take as long
    return late
