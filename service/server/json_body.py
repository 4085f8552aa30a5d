"""Reading JSON bodies strictly: what could not be stored or sent on again is refused at the door.

Python's own reader takes ``NaN``, lone surrogates, UTF-16 and any depth of nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from service.server.problems import RequestError


class JSONRequest(Request):
    """A request whose JSON must be JSON (https://www.rfc-editor.org/rfc/rfc8259)."""

    async def json(self) -> Any:
        """The body as a value.

        Raises:
            RequestError: 400, with where it stops being JSON.
        """
        body = await self.body()
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise RequestError(
                400,
                "malformed-body",
                title="The body is not UTF-8",
                detail=f"byte {error.start} cannot be read: {error.reason}",
                advice="Encode the JSON as UTF-8.",
            ) from error
        try:
            return from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise RequestError(
                400,
                "malformed-body",
                title="The body is not JSON",
                detail=str(error),
                advice="Send one JSON object with the header Content-Type: application/json.",
            ) from error


class JSONRoute(APIRoute):
    """A route that reads its body as a `JSONRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given a strict request."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(JSONRequest(request.scope, request.receive))

        return strict
