"""The bearer token of the daemon's data folder, in a header."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx2


class TokenAuth(httpx2.Auth):
    """Reads the token from its file; once more when it was refused.

    A daemon that starts for the first time listens a moment before its token is there.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send with the token, and again if there is another one by now."""
        token = read_token(self._file)
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        newer = read_token(self._file)
        if response.status_code == 401 and newer not in (None, token):
            request.headers["Authorization"] = f"Bearer {newer}"
            yield request


def read_token(file: Path) -> str | None:
    """The token, or None when there is none that can be read: the daemon's refusal says more."""
    try:
        return file.read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
