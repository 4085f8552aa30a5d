"""The bearer token of the daemon's data folder, in a header."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import httpx2

from service.cli.daemon.daemon_errors import BadTokenFileError

_TOKEN = re.compile(r"[\x21-\x7e]+")  # what a header can carry, without white space


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
    """The token, or None when there is none that can be read: the daemon's refusal says more.

    Raises:
        BadTokenFileError: the file holds something else. What it is is not shown: it is secret.
    """
    try:
        token = file.read_text("utf-8", errors="replace").strip()
    except OSError:
        return None
    if token and not _TOKEN.fullmatch(token):
        raise BadTokenFileError(
            f"the token file {file} does not hold a token, but white space or characters that no "
            "token has",
            advice="Put the token back; or delete the file and start the daemon again: it makes "
            "a new one.",
        )
    return token or None
