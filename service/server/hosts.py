"""Which web pages may talk to the daemon: its own, and no other.

A page of another site can send requests to an address on this machine. Checking ``Host`` stops
those whose name was made to point here (DNS rebinding), checking ``Origin`` stops the others.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.server.problems import RequestError

_WILDCARDS = frozenset(("0.0.0.0", "::", ""))


class SameOrigin:
    """Refuses requests for other hosts and from other origins with 403."""

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        """`host` is the one that the daemon listens on."""
        self._app = app
        self._names = {"localhost", host.lower()} - _WILDCARDS
        # Listening everywhere, it is called by any of the machine's addresses. A page cannot be
        # rebound to a literal address, so these are safe; of names only the machine's own is.
        self._any_address = host in _WILDCARDS
        if self._any_address:
            self._names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request of our own pages, or of no page, through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(Headers(scope=scope))
        except RequestError as error:
            await error.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(_hostname(hosts[0])):
            raise RequestError(
                403,
                "foreign-host",
                title="This host name is not served",
                detail="the Host header names another host than the one the daemon listens on",
                advice="Use http://127.0.0.1 with the daemon's port, or set server.host.",
            )
        for origin in headers.getlist("origin"):
            if origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()):
                raise RequestError(
                    403,
                    "foreign-origin",
                    title="Web pages of other sites are not served",
                    detail="the Origin header names another site than the daemon's own",
                    advice="Open the daemon's own address in the browser, "
                    "or send the request from a program.",
                )

    def _is_ours(self, name: str) -> bool:
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback


def _hostname(host: str) -> str:
    """The name in a Host header, without its port; empty when there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
