"""Lists of models, in the forms in which servers tell them (``GET /v1/models`` and its kin).

Each is one bounded request for JSON, of a server that may be anything at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.domain.errors import LLMConnectionError, LLMError, LLMStatusError, LLMTimeoutError
from service.domain.redirects import redirect
from service.llm.discovery.providers import ModelList, OfferedModel
from service.llm.remote.endpoints import Endpoint, Vendor

if TYPE_CHECKING:
    import httpx2

    pass

_NO_JSON = object()


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, as far as it was read."""

    status: int
    headers: Mapping[str, str]
    body: Any
    """What the JSON says; None where it is none."""
    is_json: bool

    @property
    def media_type(self) -> str:
        """Of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


async def fetch_json(
    client: httpx2.AsyncClient,
    url: str,
    *,
    most_bytes: int,
    headers: Mapping[str, str] | None = None,
    post: Mapping[str, Any] | None = None,
) -> Fetched:
    """Ask for JSON. A body that is longer than allowed, or no JSON, counts as none.

    Args:
        client: follows no redirects.
        url: what is asked.
        most_bytes: how much of the body is read.
        headers: sent beside the client's own.
        post: sent as JSON; None: a plain GET.

    Raises:
        httpx2.HTTPError, httpx2.InvalidURL: it cannot be asked.
    """
    method = "GET" if post is None else "POST"
    # Nothing is unpacked: a small body could become a large one.
    sent = {"Accept-Encoding": "identity", **(headers or {})}
    async with client.stream(method, url, headers=sent, json=post) as response:
        raw = b""
        async for piece in response.aiter_raw():
            raw += piece
            if len(raw) > most_bytes:
                raw = b""
                break
        body = _read(raw)
        return Fetched(
            response.status_code,
            dict(response.headers),
            None if body is _NO_JSON else body,
            body is not _NO_JSON,
        )


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return _NO_JSON


_MOST_BYTES = 16 * 2**20  # of hundreds of models, each with a page of words
_SECONDS = 20.0
_LONGEST_NAME = 300
_NO_CHAT = re.compile(
    r"embed|rerank|(?<![a-z])(?:bge|gte|e5)(?![a-z])|minilm|whisper|transcri|(?<![a-z])tts(?![a-z])"
    r"|text-to-speech|moderation|dall-e|image(?:n|-\d|$)|stable-diffusion|flux|(?<![a-z])sora"
    r"|realtime|(?<![a-z])audio|turbo-instruct|babbage|davinci|(?<![a-z])ocr(?![a-z])|(?<![a-z])clip(?![a-z])|guard",
    re.IGNORECASE,
)
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
_CHAT_KINDS = ("llm", "vlm", "chat", "language", "model", "base", "code")
_OWN_LIST = {"openai": "/models", "anthropic": "/v1/models?limit=1000"}


def is_for_chat(name: str) -> bool:
    """Whether a model can be chatted with, as far as its name tells.

    >>> [is_for_chat(name) for name in ("qwen3:8b", "nomic-embed-text", "bge-m3", "whisper-1")]
    [True, False, False, False]
    """
    return not _NO_CHAT.search(name.rpartition("/")[2])


def read_list(body: Any) -> ModelList | None:
    """The models of a list; None where it is no such list.

    Known are ``{"data": […]}`` (OpenAI, and whoever follows), a list alone (Together), and
    ``{"models": […]}``.
    """
    if isinstance(body, Mapping):
        body = body.get("data", body.get("models"))
    if not isinstance(body, list):
        return None
    models: dict[str, OfferedModel] = {}
    others: set[str] = set()
    for entry in body:
        name = _name(entry)
        if not name:
            continue
        if is_for_chat(name) and _says_chat(entry):
            models.setdefault(name, _offered(name, entry))
        else:
            others.add(name)
    return ModelList(tuple(models.values()), len(others))


async def list_models(base_url: str, api_key: str, *, vendor: Vendor = "openai") -> ModelList:
    """Ask an endpoint for its models.

    Raises:
        LLMError: it cannot be reached, refuses, or tells no list; says what to do.
    """
    import anyio
    import httpx2

    place = Endpoint(base_url, "", _SECONDS, api_key, vendor)
    try:
        # A proxy of the environment cannot reach this machine's own services.
        trust_env = not place.is_loopback
        with anyio.fail_after(_SECONDS):
            async with httpx2.AsyncClient(timeout=_SECONDS, trust_env=trust_env) as http:
                answer = await fetch_json(
                    http,
                    f"{base_url.rstrip('/')}{_OWN_LIST[vendor]}",
                    most_bytes=_MOST_BYTES,
                    headers=_headers(api_key, vendor),
                )
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise LLMTimeoutError(
            f"{place.place} did not answer within {_SECONDS:.0f} s", advice="Check the network."
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise LLMConnectionError(
            _words(error, place), advice="Check the address, and the network."
        ) from error
    models = read_list(answer.body) if answer.status == 200 else None
    if models is None:
        raise _refusal(answer, place, base_url)
    return models


def _headers(api_key: str, vendor: Vendor) -> dict[str, str]:
    if vendor == "anthropic":  # https://platform.claude.com/docs/en/api/models-list
        return {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def _words(error: Exception, place: Endpoint) -> str:
    import httpx2

    if isinstance(error, ValueError | httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "this is no address such as http://localhost:8000/v1"
    if isinstance(error, httpx2.ConnectError) and place.is_loopback:
        return f"nothing listens at {place.place}"
    return f"{place.place}: {place.without_keys(str(error) or type(error).__name__)[:300]}"


def _refusal(answer: Fetched, place: Endpoint, base_url: str) -> LLMError:
    """Why a list was not told, in words."""
    if 300 <= answer.status < 400 and (location := answer.headers.get("location")):
        elsewhere = redirect(f"{base_url.rstrip('/')}/models", base_url, location)
        advice = elsewhere.advice("the address")
        return LLMStatusError(answer.status, elsewhere.detail(place.place), advice=advice)
    if answer.status in (401, 403):
        words = "refuses the key" if place.api_key else "wants a key"
        advice = "Check the key, and whether it is for this address."
    elif answer.status == 429:
        words, advice = "says: too many requests", "Wait a little, or check the account's credit."
    elif answer.status >= 500:
        words, advice = f"has a fault of its own ({answer.status})", "Try again later."
    elif answer.status == 200:
        words = "answers, but with no list of models"
        advice = f"Check the address: it {place.form_of_address}."
    else:
        words = f"answers {answer.status} when it is asked for its models"
        advice = f"Check the address: it {place.form_of_address}."
    return LLMStatusError(answer.status, f"{place.place} {words}", advice=advice)


def _name(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return ""
    name = entry.get("id") or entry.get("name") or entry.get("model")
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not name.isprintable():
        return ""
    return name.strip().removeprefix("models/")  # Gemini's way; it takes both


def _says_chat(entry: Mapping[str, Any]) -> bool:
    """Whether an entry says that it can be chatted with, or at least not that it cannot."""
    kind = entry.get("type")
    if isinstance(kind, str) and kind.lower() not in _CHAT_KINDS:
        return False
    match entry.get("capabilities"):
        case {"completion_chat": bool(chats)}:  # Mistral
            return chats
        case list() as named if named and all(isinstance(each, str) for each in named):
            return "embedding" not in named or "completion" in named  # Ollama
    match entry.get("architecture"):
        case {"output_modalities": list() as modalities}:  # OpenRouter
            return "text" in modalities
    return True


def _offered(name: str, entry: Mapping[str, Any]) -> OfferedModel:
    tools: bool | None = None
    match entry:
        case {"supported_parameters": list() as parameters}:  # OpenRouter
            tools = "tools" in parameters
        case {"capabilities": {"function_calling": bool(calls)}}:  # Mistral
            tools = calls
    return OfferedModel(name, tools=tools, context_tokens=first_window(entry, _WINDOWS))


def first_window(entry: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """The first of some numbers of tokens that an entry names."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
