"""Which part of the network is granted: none, all, or hosts by their names."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_DOMAIN = re.compile(r"(?:\*\.)?(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\.)+[a-z](?:[-a-z0-9]*[a-z0-9])")
_YES_OR_NO = frozenset(("true", "false", "yes", "no", "on", "off", "1", "0"))


def domain_pattern(written: str) -> str:
    """A name of hosts as it is compared: in ASCII and lower case.

    >>> domain_pattern("API.example.org."), domain_pattern("*.例子.中国")
    ('api.example.org', '*.xn--fsqu00a.xn--fiqs8s')

    Raises:
        ValueError: it is none, such as a number or an address.
    """
    star, name = ("*.", written[2:]) if written.startswith("*.") else ("", written)
    try:
        pattern = star + name.strip().rstrip(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        pattern = ""
    if not _DOMAIN.fullmatch(pattern):
        raise ValueError(
            f"{written[:100]!r} is no name of hosts, such as api.example.org or *.example.org"
        )
    return pattern


def matches(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether a host, in ASCII and lower case, is one of those that are named.

    >>> [matches(host, ("*.b.org", "c.org")) for host in ("a.b.org", "b.org", "c.org", "a.c.org")]
    [True, False, True, False]
    """
    return any(
        host.endswith(each[1:]) if each.startswith("*.") else host == each for each in patterns
    )


def _grant(written: object) -> object:
    if isinstance(written, str) and written.strip().lower() not in _YES_OR_NO:
        written = [each for each in written.split(",") if each.strip()]
    if isinstance(written, list | tuple) and all(isinstance(each, str) for each in written):
        return tuple(domain_pattern(each.strip()) for each in written)
    return written


NetworkGrant = Annotated[bool | tuple[str, ...], BeforeValidator(_grant)]
"""True for all of it, False for none, or names of hosts; as a variable also with commas between."""
