"""Who is asking: a bearer token is needed everywhere but where nothing can be learned or done."""

from __future__ import annotations

import hmac
from typing import Annotated
from urllib.parse import parse_qsl, unquote

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.server.problems import RequestError
from service.server.security.bearer_token import LEAST_SECRET, TOKEN_PARAMETERS, Token

OPEN_PATHS = frozenset(
    (
        "/",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/start.js",
        "/docs/assets/swagger-ui.css",
        "/docs/assets/swagger-ui-bundle.js",
    )
)
"""What can be had without a token."""

_OWNER = "me"  # the one owner of a data folder, for now
_TOKEN_IN_ADDRESS = RequestError(
    400,
    "token-in-address",
    title="A token must not stand in an address",
    advice="Send it in the header `Authorization: Bearer TOKEN`. If it was the real one, delete the"
    " file `token` in the data folder: the next start makes a new one.",
)
_bearer = HTTPBearer(
    auto_error=False,  # `BearerAuth` has refused it already; this is for the API's description
    description="The token that is kept in the file `token` of the data folder.",
)
TOKEN_NEEDED = Security(_bearer)
"""Tells in the API's description that a route needs the token, whosever it is."""


class BearerAuth:
    """Refuses requests without the token with 401, also where there is no route.

    Addresses are logged and kept by programs of all kinds: a token in one is refused with 400, also
    beside the right header, so that nobody gets used to it.

    The owner that the token stands for goes into the request's state.
    """

    def __init__(self, app: ASGIApp, *, token: Token) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request with the token through."""
        if scope["type"] == "http" and self._is_in_address(scope):
            await _TOKEN_IN_ADDRESS.response()(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            values = Headers(scope=scope).getlist("authorization")
            if not self._is_right(values):
                response = self._error(given=bool(values)).response()
                await response(scope, receive, send)
                return
            scope.setdefault("state", {})["owner"] = _OWNER
        await self._app(scope, receive, send)

    def _is_in_address(self, scope: Scope) -> bool:
        """Whether there is a token, by its name, or this very one, wherever it stands."""
        written = scope["query_string"].decode("latin-1")
        query = parse_qsl(written, keep_blank_values=True)
        spellings = [scope["path"], unquote(written)]
        named = any(name.lower() in TOKEN_PARAMETERS for name, _ in query)
        if named or len(self._token.value) < LEAST_SECRET:
            return named
        return any(self._token.value in each for each in spellings)

    def _is_right(self, values: list[str]) -> bool:
        if len(values) != 1:
            return False
        scheme, _, given = values[0].partition(" ")
        # Header values are decoded as Latin-1; as bytes they can always be compared.
        expected = self._token.value.encode()
        matches = hmac.compare_digest(given.strip().encode("latin-1"), expected)
        return scheme.lower() == "bearer" and matches

    def _error(self, *, given: bool) -> RequestError:
        # https://www.rfc-editor.org/rfc/rfc6750#section-3
        challenge = 'Bearer realm="rondo"' + (', error="invalid_token"' if given else "")
        return RequestError(
            401,
            "unauthorised",
            title="The token is wrong" if given else "A token is needed",
            advice="Send the header `Authorization: Bearer TOKEN` with the token "
            f"that is kept in {self._token.file}.",
            headers={"WWW-Authenticate": challenge},
        )


def _owner(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> str:
    owner = request.state.owner
    if not isinstance(owner, str):
        raise TypeError("the owner of a request is a string")
    return owner


Owner = Annotated[str, Security(_owner)]
"""Whose run loops and memories a route works on. Another owner's are not found."""
