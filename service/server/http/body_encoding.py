"""In which form bodies are taken: as they are, in UTF-8. All else is refused, not guessed."""

from __future__ import annotations

from email.message import Message

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

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
    declared = Message()
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
