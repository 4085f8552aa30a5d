"""Which addresses on the network a model may have asked: public ones only.

A name is resolved once, all its addresses are checked, and the connection is made to one of them:
a name that says something else the next time (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection

import anyio

from service.tools.protocol import ToolFailure

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""From a name and a port to its addresses.

Raises OSError: there are none.
"""

# https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-: what `is_global` of some
# versions of Python lets through, relays to IPv4, and Azure's metadata, which look public.
_REFUSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",
            "192.0.0.0/24",
            "192.88.99.0/24",
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "3fff::/20",
        ),
    )
)
_UNICAST = ipaddress.ip_network("2000::/3")  # all of IPv6 that is given out; NAT64 is not in it


async def resolved(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system tells them."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def is_public(address: str) -> bool:
    """Whether an address is one of the public network's.

    >>> is_public("93.184.216.34"), is_public("2606:4700::1111")
    (True, True)
    >>> is_public("127.0.0.1"), is_public("::ffff:93.184.216.34"), is_public("fe80::1%eth0")
    (False, False, False)
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and (ip.scope_id or ip not in _UNICAST):
        return False
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        return False
    return not any(ip in network for network in _REFUSED if network.version == ip.version)


async def checked_address(
    host: str, port: int, *, resolve: Resolve, private_hosts: Collection[str]
) -> str:
    """An address to connect to.

    Args:
        host: a name or an address, in whatever form the resolver takes it.
        port: at which it is to be asked.
        resolve: tells the addresses of a name.
        private_hosts: names that may be anywhere.

    Raises:
        ToolFailure: there is none, or one of its addresses is not public.
    """
    try:
        addresses = await resolve(host, port)
    except (OSError, UnicodeError) as error:
        raise ToolFailure(f"There is no host {host[:100]!r}. Check the address.") from error
    if not addresses:
        raise ToolFailure(f"There is no host {host[:100]!r}. Check the address.")
    if host not in private_hosts and not all(map(is_public, addresses)):
        raise ToolFailure(
            f"{host[:100]!r} is not a public host, and only public ones may be asked. The user can"
            " allow it with `tools.web_fetch_private_hosts`."
        )
    return addresses[0]
