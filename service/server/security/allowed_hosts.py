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

_HTTP_PORT = 80
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
            self._check(Headers(scope=scope), port=(scope.get("server") or (None, None))[1])
        except RequestError as error:
            await error.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, headers: Headers, *, port: int | None) -> None:
        """`port` is the one that the request came in at, as far as it is known."""
        hosts = headers.getlist("host")
        name, named_port = _name_and_port(hosts[0]) if len(hosts) == 1 else ("", None)
        port = port or named_port or _HTTP_PORT
        # Some programs leave the port out; browsers, the ones that matter here, never do.
        if not self._is_ours(name) or named_port not in (None, port):
            raise RequestError(
                403,
                "foreign-host",
                title="This host name is not served",
                detail="the Host header names another host or port than the daemon listens on",
                advice="Use http://127.0.0.1 with the daemon's port, or set server.host and"
                " server.port. A tunnel must have the same port at both ends.",
            )
        for origin in headers.getlist("origin"):
            if origin.lower() != _origin(name, port):
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


def _name_and_port(host: str) -> tuple[str, int | None]:
    """The two parts of a Host header; the name is empty when there is none.

    >>> _name_and_port("[::1]:8765"), _name_and_port("localhost"), _name_and_port("x:y")
    (('::1', 8765), ('localhost', None), ('', None))
    """
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _origin(name: str, port: int) -> str:
    """How a browser names our own pages (https://www.rfc-editor.org/rfc/rfc6454#section-6.2)."""
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}" if port == _HTTP_PORT else f"http://{name}:{port}"
