"""What a connection, and all of them together, may take of the daemon."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass, replace

log = logging.getLogger(__name__)

_MOST_DESCRIPTORS = 65_536
"""No more than we could use: some programs that we start walk through all that are allowed."""
_OWN_DESCRIPTORS = 256
"""Kept for the daemon itself: its files, the vector index, models, tools, endpoints. It uses about
60 at rest."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of time, bytes and number. What goes beyond is refused in words, or cut off."""

    connections: int = 4096
    """At once. A new one beyond takes the place of the one that has been silent the longest."""
    spare_connections: int = 16
    """More of them when all are at work: on these, only ``/healthz`` is answered."""
    header_count: int = 100
    header_bytes: int = 16_384
    """Of one header, name and value."""
    head_bytes: int = 32_768
    """Of the request line and all headers."""
    head_seconds: float = 15
    """From the first byte of a request, or from connecting, to the end of its headers."""
    body_seconds: float = 30
    """Longest silence within a body."""
    body_bytes_per_second: float = 500
    """The slowest that a body may come after that."""
    pipelined: int = 32
    """Requests that wait behind another one on the same connection."""
    stall_seconds: float = 30
    """How long a client may not take any of the answer that waits for it."""
    linger_seconds: float = 5
    """How long the rest of a body that nobody wants is read and dropped, so that the client gets to
    see the answer (https://www.rfc-editor.org/rfc/rfc9112#section-9.6)."""
    linger_bytes: int = 100_000_000


def limits_for(max_connections: int) -> Limits:
    """The limits of a daemon, after as many descriptors as the system grants were asked for.

    Args:
        max_connections: how many connections are wanted at once; fewer where that leaves too few
            descriptors for the daemon itself.
    """
    granted = _raised()
    limits = Limits()
    own = min(_OWN_DESCRIPTORS, granted // 2)
    most = granted - own - limits.spare_connections
    if most < max_connections:
        log.warning(
            "at most %d connections are taken at once, not %d: this process may open %d files."
            " Raise that with `ulimit -Hn`, or LimitNOFILE of its service.",
            most,
            max_connections,
            granted,
        )
    return replace(limits, connections=max(1, min(max_connections, most)))


def _raised() -> int:
    """Raise the soft limit of open files towards the hard one; gives what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    target = _MOST_DESCRIPTORS if hard == unlimited else min(hard, _MOST_DESCRIPTORS)
    if soft == unlimited or soft >= target:
        return _MOST_DESCRIPTORS if soft == unlimited else soft
    for attempt in (target, 10_240):  # the second is the most that macOS grants
        if attempt <= soft:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (attempt, hard))
        except (ValueError, OSError):
            continue
        return attempt
    return soft
