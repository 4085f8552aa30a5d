"""Errors on the wire: RFC 9457 problem details (https://www.rfc-editor.org/rfc/rfc9457).

Every error answer has the media type ``application/problem+json`` and says what happened and what
to do about it. Nothing of what was sent is echoed: it may hold secrets.
"""

from __future__ import annotations

import http
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from service.domain.errors import Problem, RondoError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_STATUSES = {
    "invalid-input": 422,
    "bad-anchor": 400,
    "payload-too-large": 413,
    "not-found": 404,
    "conflict": 409,
    "storage": 507,
    "llm": 502,
    "llm-connection": 502,
    "llm-context": 502,
    "llm-not-ready": 503,
    "llm-status": 502,
    "llm-stream": 502,
    "llm-timeout": 504,
    "starting-up": 503,
    "stopping": 503,
}
_RETRY_AFTER_SECONDS = "2"


class RequestError(HTTPException):
    """A request that is refused before it reaches a route's own code."""

    def __init__(
        self,
        status: int,
        kind: str,
        *,
        title: str,
        detail: str = "",
        advice: str = "",
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """`extensions` are further members of the problem object."""
        super().__init__(status, detail or title, headers)
        self.problem = Problem(kind=kind, title=title, detail=detail, advice=advice)
        self.extensions = dict(extensions or {})

    def response(self) -> Response:
        """The error as an answer."""
        return problem_response(
            self.problem, status=self.status_code, headers=self.headers, **self.extensions
        )


def status_of(problem: Problem) -> int:
    """The HTTP status of a problem: 500 for those that no caller can help."""
    return _STATUSES.get(problem.kind, 500)


def problem_response(
    problem: Problem,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    **extensions: JsonValue,
) -> Response:
    """A problem as an answer.

    Args:
        problem: what happened.
        status: HTTP status; None for the one that belongs to the problem's kind.
        headers: more headers.
        **extensions: further members of the problem object.
    """
    status = status_of(problem) if status is None else status
    members = {
        "type": f"urn:rondo:{problem.kind}",
        "title": problem.title,
        "status": status,
        "detail": problem.detail,
        "advice": problem.advice,
        **extensions,
    }
    all_headers = dict(headers or {})
    if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
        all_headers.setdefault("Retry-After", _RETRY_AFTER_SECONDS)
    # A problem may quote a model or a tool, whose text may hold lone surrogates.
    content = json.dumps(members, ensure_ascii=False).encode("utf-8", errors="backslashreplace")
    return Response(content, status_code=status, headers=all_headers, media_type=MEDIA_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Let every error of an app leave it as problem details."""
    app.add_exception_handler(RondoError, _rondo_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(Exception, _unexpected)


async def _rondo_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RondoError):
        raise error
    problem = error.problem()
    if status_of(problem) >= 500:
        log.error("%s %s: %s", request.method, request.url.path, problem.in_words())
    return problem_response(problem)


async def _validation_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [
        {"field": _field(item["loc"]), "message": str(item["msg"])} for item in error.errors()
    ]
    problem = Problem(
        kind="invalid-input",
        title="The request cannot be used",
        detail="; ".join(f"{item['field']}: {item['message']}" for item in errors),
        advice="Correct the fields that are named; /docs describes all of them.",
    )
    return problem_response(problem, errors=[dict(item) for item in errors])


async def _http_exception(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestError):
        return error.response()
    if not isinstance(error, HTTPException):
        raise error
    problem = _PROBLEMS_OF_STATUS.get(error.status_code) or Problem(
        kind="http", title=http.HTTPStatus(error.status_code).phrase, detail=str(error.detail)
    )
    headers = dict(error.headers or {})
    if error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(request))
    return problem_response(problem, status=error.status_code, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """All methods of an address; the framework itself names those of the first route alone."""
    return [
        method
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
        for scope in ({**request.scope, "method": method},)
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)
    ]


async def _unexpected(request: Request, error: Exception) -> Response:
    # Starlette raises it again once this is sent, and the server logs it with its traceback.
    problem = Problem(
        kind="internal",
        title="The daemon made a mistake of its own",
        advice="Please report it; the daemon's log has the details.",
    )
    return problem_response(problem, status=500)


_PROBLEMS_OF_STATUS = {
    400: Problem(
        kind="malformed-body",
        title="The body cannot be read",
        advice="Send the whole body as UTF-8 JSON.",
    ),
    404: Problem(
        kind="no-such-route",
        title="There is nothing at this address",
        advice="/docs lists every address.",
    ),
    405: Problem(
        kind="method-not-allowed",
        title="This address does not take that method",
        advice="The Allow header names those it takes; /docs describes them.",
    ),
}


_KINDS = frozenset(("str", "int", "float", "bool"))


def _field(location: Sequence[Any]) -> str:
    """Where in the request: ``message``, ``metadata.x``, or ``body`` for the whole."""
    inner = location[1:] if len(location) > 1 else location
    named = [str(part) for part in inner]
    # Of a field that may be of several kinds pydantic names the kind, too.
    return ".".join(each for each in named if each not in _KINDS and "[" not in each)
