"""What can go wrong between a command and the daemon.

RondoError
└── DaemonError               the daemon cannot be asked, or says no
    ├── DaemonNotRunningError nothing listens at the address
    ├── NotTheDaemonError     something listens there, but not the daemon
    ├── BadTokenFileError     the file of the token holds something else
    ├── TokenRefusedError     the daemon does not accept our token
    ├── ConnectionLostError   the connection broke; asking again can help
    ├── UnknownFormError      the daemon answers as another version of it would
    └── RefusedError          the daemon answered with a problem, which it tells in words
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from service.domain.errors import RondoError


class DaemonError(RondoError):
    """The daemon cannot be asked, or says no."""

    kind = "daemon"
    title = "The daemon could not do this"


class DaemonNotRunningError(DaemonError):
    """Nothing listens at the daemon's address."""

    kind = "daemon-not-running"
    title = "The daemon is not running"


class NotTheDaemonError(DaemonError):
    """What answers at the address is another program."""

    kind = "not-the-daemon"
    title = "Another program answers at the daemon's address"


class BadTokenFileError(DaemonError):
    """The file of the token holds something else."""

    kind = "bad-token-file"
    title = "The token cannot be used"


class TokenRefusedError(DaemonError):
    """The token is missing, or belongs to another data folder."""

    kind = "token-refused"
    title = "The daemon does not accept the token"


class ConnectionLostError(DaemonError):
    """The connection broke, or nothing came for too long."""

    kind = "connection-lost"
    title = "The connection to the daemon broke"


class UnknownFormError(DaemonError):
    """The daemon answers in a form that this program does not know."""

    kind = "unknown-form"
    title = "The daemon's answer cannot be read"


class RefusedError(DaemonError):
    """The daemon answered with a problem."""

    kind = "refused"

    def __init__(self, status: int, title: str, detail: str, advice: str) -> None:
        super().__init__(detail, advice=advice, title=title)
        self.status = status
        """The HTTP status."""


@contextmanager
def advice_when_lost(advice: str) -> Iterator[None]:
    """Have a connection that breaks within ``with`` told with what became of just this work.

    Raises:
        ConnectionLostError: it broke; it has this advice.
    """
    try:
        yield
    except ConnectionLostError as error:
        raise ConnectionLostError(error.detail, advice=advice) from error
