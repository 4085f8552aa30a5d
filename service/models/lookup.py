"""Looking a server's name up, for no longer than one is willing to wait.

Where a network swallows questions to its name servers, the system's resolver hangs for half a
minute, and cannot be interrupted. An event loop waits at its end for the threads that it lent to
such a question; ours are left behind.
"""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio

from service.models.weight_errors import SourceFailed

_POLL_SECONDS = 0.02
_PORTS = {"http": 80, "https": 443}


async def look_up(url: str, seconds: float) -> None:
    """Have the system look up the host that a request connects to: that of `url`, or a proxy.

    Raises:
        SourceFailed: nobody knows it, or there is no answer within `seconds`.
    """
    host, port = _first_hop(url)
    failures: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failures.append(error)

    thread = threading.Thread(target=ask, name=f"look up {host}", daemon=True)
    thread.start()
    with anyio.move_on_after(seconds):
        while thread.is_alive():  # noqa: ASYNC110 - a thread has nothing to await
            await anyio.sleep(_POLL_SECONDS)
    if thread.is_alive():
        raise SourceFailed(f"{host} is not found within {seconds:g} s", was_slow=True)
    if failures:
        words = getattr(failures[0], "strerror", None) or failures[0]
        raise SourceFailed(f"the server cannot be reached ({host}: {words})")


def _first_hop(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return host, port
    way = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return way.hostname or host, way.port or port
