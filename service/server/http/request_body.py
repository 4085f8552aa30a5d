"""Bodies of requests: their form, their longest size, and JSON that can be stored and sent on.

They are taken as they are, in UTF-8; all else is refused, not guessed. They are counted while they
arrive. JSON's grammar has room for what could not be stored, found again, or sent on: numbers
beyond what a double holds, halves of characters, nesting without end
(https://www.rfc-editor.org/rfc/rfc8259#section-9 lets a reader set such limits).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from email.message import Message as MimeHeaders
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import JsonValue
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.server.problems import RequestError

_UTF_8 = frozenset(("utf-8", "utf8", "us-ascii", "ascii"))


class PlainBodies:
    """Refuses compressed bodies, and those of another encoding than UTF-8, with 415."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through whose body can be read as it is."""
        error = _refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        if error is not None:
            await error.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refusal(headers: Headers) -> RequestError | None:
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return None  # there is no body
    for coding in ",".join(headers.getlist("content-encoding")).split(","):
        if coding.strip().lower() not in ("", "identity"):
            return RequestError(
                415,
                "unsupported-media-type",
                title="Compressed bodies are not taken",
                detail="the header Content-Encoding names a compression",
                advice="Send the body as it is, without that header.",
                headers={"Accept-Encoding": "identity"},
            )
    declared = MimeHeaders()
    declared["content-type"] = headers.get("content-type", "")
    charset = declared.get_content_charset()
    if charset is not None and charset not in _UTF_8:
        return RequestError(
            415,
            "unsupported-media-type",
            title="Bodies are UTF-8",
            detail="the header Content-Type names another encoding",
            advice="Send the body as UTF-8; save a file as UTF-8 first.",
        )
    return None


class BodyLimit:
    """Refuses a longer body with 413: at once where its length is declared, else when it shows.

    The bodies of some paths are streams of any length: their routes never hold one as a whole.
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, streamed: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._streamed = streamed
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, counting its body."""
        if scope["type"] != "http" or scope["path"] in self._streamed:
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > self._max_bytes:
            # The server reads on and drops what comes, so that the client gets to see the answer.
            await self._error().response()(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise self._error()
            return message

        await self._app(scope, counted, send)

    def _error(self) -> RequestError:
        return RequestError(
            413,
            "payload-too-large",
            title="The request is too large",
            detail=f"at most {self._max_bytes:,} bytes are taken",
            advice="Send less at once, or raise server.max_body_bytes in rondo.toml.",
        )


MOST_LEVELS = 100
"""How deep lists and objects may be nested."""
_LARGEST = 2**63 - 1  # what SQLite, Chroma and most programs hold


@dataclass(frozen=True, slots=True)
class Unusable:
    """What is wrong with a value, and where in the whole."""

    place: tuple[str | int, ...]
    message: str


def unusable(value: JsonValue) -> Unusable | None:
    """Why a value cannot be stored and sent on; None: it can.

    >>> unusable({"a": [1, 1e999]})
    Unusable(place=('a', 1), message='it is not a finite number')
    >>> unusable({"a": "词", "b": None}) is None
    True
    """
    waiting: list[tuple[tuple[str | int, ...], JsonValue]] = [((), value)]
    while waiting:
        place, each = waiting.pop()
        message = _wrong(each, len(place))
        if message is not None:
            return Unusable(place, message)
        if isinstance(each, dict):
            for name, inner in each.items():
                if _is_broken(name):
                    return Unusable(place, f"a name in it {_HALF}")
                waiting.append(((*place, name), inner))
        elif isinstance(each, list):
            waiting.extend(((*place, index), inner) for index, inner in enumerate(each))
    return None


_HALF = "holds half a character (a lone surrogate)"


def _wrong(value: JsonValue, level: int) -> str | None:
    match value:
        case bool() | None:
            return None
        case float() if not math.isfinite(value):
            return "it is not a finite number"
        case int() if not -_LARGEST <= value <= _LARGEST:
            return "it is a whole number beyond 64 bits; send it as a text"
        case str() if _is_broken(value):
            return f"it {_HALF}"
        case dict() | list() if level >= MOST_LEVELS:
            return f"it is nested more than {MOST_LEVELS} levels deep"
    return None


def _is_broken(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


_MOST_DIGITS = 400
"""Of a number: more than any double has before it is infinite or nought."""


class JSONRequest(Request):
    """A request whose JSON must be JSON (https://www.rfc-editor.org/rfc/rfc8259)."""

    async def json(self) -> Any:
        """The body as a value.

        Raises:
            RequestError: 400, with where it stops being JSON; 422, with what in it cannot be kept.
        """
        body = await self.body()
        try:
            value = json.loads(body.decode(), parse_int=_whole, parse_constant=_constant)
        except UnicodeDecodeError as error:
            raise RequestError(
                400,
                "malformed-body",
                title="The body is not UTF-8",
                detail=f"byte {error.start} cannot be read: {error.reason}",
                advice="Encode the JSON as UTF-8.",
            ) from error
        except json.JSONDecodeError as error:
            raise RequestError(
                400,
                "malformed-body",
                title="The body is not JSON",
                detail=str(error),
                advice="Send one JSON object with the header Content-Type: application/json.",
            ) from error
        except RecursionError as error:
            deep = f"it is nested more than {MOST_LEVELS} levels deep"
            raise _refused("body", deep) from error
        fault = unusable(value)
        if fault is not None:
            raise _refused(".".join(map(str, fault.place)) or "body", fault.message)
        return value


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:  # Python itself refuses only from 4,300 on, without a place
        raise _refused("body", f"a number in it has {len(digits):,} digits")
    return int(digits)


def _constant(name: str) -> float:
    raise _refused("body", f"{name} is not a number that JSON knows")


def _refused(field: str, message: str) -> RequestError:
    return RequestError(
        422,
        "invalid-input",
        title="The request cannot be used",
        detail=f"{field}: {message}",
        advice="Leave it out, or send it as a text.",
        extensions={"errors": [{"field": field, "message": message}]},
    )


class JSONRoute(APIRoute):
    """A route that reads its body as a `JSONRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given a strict request."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(JSONRequest(request.scope, request.receive))

        return strict
