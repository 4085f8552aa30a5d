"""A log without tokens: whatever a library writes, the secret is not among it.

Addresses are logged by many a library at debug, and quoted in the tracebacks of others. A token has
no place in one and is refused there, but it has been sent by then.
"""

from __future__ import annotations

import logging
import re
from urllib.parse import quote

TOKEN_PARAMETERS = frozenset(
    ("token", "access_token", "auth_token", "bearer", "bearer_token", "api_key", "apikey")
)
"""Names of parameters under which programs put tokens into addresses. All are refused."""
LEAST_SECRET = 12
"""Characters of a token that is looked for anywhere; a shorter one is part of too much else."""

_HIDDEN = "[hidden]"
_NAMED = re.compile(
    rf"(?i)\b((?:{'|'.join(sorted(TOKEN_PARAMETERS))})=)[^&\s\"'#]+|(\bbearer\s+)[^\s\"',]+"
)


class ScrubbingFormatter(logging.Formatter):
    """Writes records as its format says, without tokens, in tracebacks too."""

    def __init__(self, fmt: str) -> None:
        super().__init__(fmt)
        self._secrets: tuple[str, ...] = ()

    def know(self, secret: str) -> None:
        """Hide this wherever it stands."""
        if len(secret) >= LEAST_SECRET:
            self._secrets = (*self._secrets, secret, quote(secret, safe=""))

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, or as several with a traceback."""
        written = super().format(record)
        for secret in self._secrets:
            written = written.replace(secret, _HIDDEN)
        return _NAMED.sub(lambda match: f"{match[1] or match[2]}{_HIDDEN}", written)
