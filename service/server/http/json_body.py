"""Reading JSON bodies strictly: what could not be stored or sent on is refused at the door."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from service.server.http.json_bounds import MOST_LEVELS, unusable
from service.server.problems import RequestError

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
        found = unusable(value)
        if found is not None:
            raise _refused(".".join(map(str, found.place)) or "body", found.message)
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
