"""A network of its own, in which addresses of every kind are this machine's, and a server listens
at each: run in a network namespace, it tells what `web_fetch` reached of it, as JSON.

    unshare --net python -m tests.support.tools.private_network
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio

from service.tools.builtins.web_fetch import web_fetch_tool
from service.tools.web.public_addresses import Resolve, resolved
from tests.support.tools.tool_calls import result_of

PUBLIC = "93.184.216.34"
PRIVATE = {
    "private A": "10.1.2.3",
    "private B": "172.16.0.1",
    "private C": "192.168.1.1",
    "link-local, and metadata": "169.254.169.254",
    "metadata of another cloud": "100.100.100.200",
    "loopback": "127.0.0.1",
}
MAPPED = {f"mapped {kind}": f"::ffff:{address}" for kind, address in PRIVATE.items()}
REFUSED = {**PRIVATE, **MAPPED, "loopback of IPv6": "::1"}
PAGE = b"The ferry leaves at nine."
_SET_ADDRESS, _GET_FLAGS, _SET_FLAGS, _UP = 0x8916, 0x8913, 0x8914, 1  # linux/sockios.h


def take_addresses(addresses: Sequence[str]) -> None:
    """Let the loopback interface be up, and have these addresses besides its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for number, address in enumerate(["127.0.0.1", *addresses]):
            name = (f"lo:{number}" if number else "lo").encode()
            where = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, _SET_ADDRESS, struct.pack("16s16s", name, where))
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _GET_FLAGS, b"lo".ljust(32, b"\0")))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags[1] | _UP))


class Everywhere(ThreadingHTTPServer):
    """Listens at every address, on port 80, and notes at which it was reached."""

    address_family = socket.AF_INET6

    def __init__(self) -> None:
        self.reached: list[str] = []
        super().__init__(("::", 80), _Pages)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Everywhere)
        at = self.connection.getsockname()[0].removeprefix("::ffff:")
        self.server.reached.append(at)
        leads_to = self.path.removeprefix("/to/") if self.path.startswith("/to/") else None
        self.send_response(302 if leads_to else 200)
        self.send_header("Content-Type", "text/plain")
        if leads_to:
            self.send_header("Location", "/" if leads_to == "here" else f"http://{leads_to}/")
        self.end_headers()
        self.wfile.write(b"" if leads_to else PAGE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


def names(*answers: str) -> Resolve:
    """A resolver that gives one address after the other, whatever it is asked for."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return [left.pop(0)]

    return resolve


def literal(address: str) -> str:
    """An address as it stands in that of a page."""
    return f"[{address}]" if ":" in address else address


async def tell(server: Everywhere) -> dict[str, object]:
    """By case: where the server was reached, and what the tool gave."""
    outcomes: dict[str, object] = {}

    async def fetch(case: str, address: str, resolve: Resolve) -> None:
        server.reached.clear()
        result = await result_of(web_fetch_tool(resolve=resolve), address=address)
        outcomes[case] = [list(server.reached), result.is_error, result.content]

    for kind, address in REFUSED.items():
        host = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(host) as probe:  # it is there, and who may connect, can
            probe.settimeout(5)
            probe.connect((address, 80))
        await fetch(f"a name of {kind}", "http://page.test/", names(address))
        await fetch(f"the address of {kind}", f"http://{literal(address)}/", resolved)
        await fetch(
            f"a redirect to {kind}", f"http://page.test/to/{literal(address)}", names(PUBLIC)
        )
        await fetch(
            f"a name that was public before {kind}", "http://page.test/", names(PUBLIC, address)
        )
        await fetch(
            f"a redirect, and by then {kind}", "http://page.test/to/here", names(PUBLIC, address)
        )
    await fetch("public", "http://page.test/", names(PUBLIC))
    await fetch("a redirect that stays public", "http://page.test/to/here", names(PUBLIC, PUBLIC))
    return outcomes


def main() -> None:
    """Take the addresses, serve, fetch, and tell."""
    take_addresses([PUBLIC, *(each for each in PRIVATE.values() if each != "127.0.0.1")])
    server = Everywhere()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps(anyio.run(tell, server), ensure_ascii=False))
    server.shutdown()


if __name__ == "__main__":
    main()
