"""The longest body that is taken. It is counted while it arrives, and never held as a whole."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.server.problems import RequestError


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
