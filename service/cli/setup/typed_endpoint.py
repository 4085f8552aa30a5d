"""An address and a key that a person types, because they were not found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from service.cli.setup.setup_questions import ask, ask_secret
from service.cli.terminal.output import aside
from service.llm.discovery.providers import PROVIDERS, Provider, provider

_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def ask_address() -> Provider | str | None:
    """A provider by its name, or an address; None to go back.

    Raises:
        LeftError, KeyboardInterrupt: they leave.
    """
    from rich.padding import Padding

    names = ", ".join(each.id for each in PROVIDERS)
    aside().print("\nAn address such as http://192.168.1.5:8000/v1, or one of:", style="bold")
    aside().print(Padding(names, (0, 0, 0, 6)), style="dim")
    said = ask("Address or name (Enter goes back) › ")
    return None if not said else provider(said) or whole_address(said)


def whole_address(said: str) -> str:
    """An address as it is called: with its scheme, and without what comes after the API's root.

    >>> whole_address("localhost:8000/v1/"), whole_address("192.168.1.5:8000")
    ('http://localhost:8000/v1', 'http://192.168.1.5:8000')
    >>> whole_address("llm.example/v1/chat/completions")
    'https://llm.example/v1'
    """
    address = said.strip().rstrip("/")
    if "://" not in address:
        scheme = "http" if _is_near(address) else "https"
        address = f"{scheme}://{address}"
    for end in ("/chat/completions", "/completions", "/models"):
        address = address.removesuffix(end)
    return address


def candidates(address: str) -> list[str]:
    """The addresses that may be meant: as it stands, and where it has no path, with ``/v1``."""
    try:
        has_path = bool(urlsplit(address).path.strip("/"))
    except ValueError:
        return [address]
    return [address] if has_path else [f"{address}/v1", address]


def ask_key(name: str) -> str:
    """The key for a place; empty where it wants none.

    Raises:
        LeftError, KeyboardInterrupt: they leave.
    """
    return ask_secret(f"Key for {name} (not shown; Enter: none) › ")


def ask_where_the_key_stays(suggested: str, environment: Mapping[str, str]) -> str:
    """The variable that will hold the key; empty: the file itself.

    Raises:
        LeftError, KeyboardInterrupt: they leave.
    """
    aside().print("\nWhere shall the key stay?", style="bold")
    aside().print("   1  in a variable that you set; rondo.toml only names it")
    aside().print("   2  in rondo.toml itself, which only you can read then")
    while (said := ask("1 or 2 › ")) not in ("1", "2"):
        aside().print("Type 1 or 2; q leaves everything as it is.", style="dim")
    if said == "2":
        return ""
    while True:
        name = ask(f"Name of the variable (Enter: {suggested}) › ") or suggested
        if not _VARIABLE.fullmatch(name):
            # Not repeated: it may be the key.
            aside().print("A name has letters, digits and _ only.", style="yellow")
        else:
            break
    if not environment.get(name):
        words = f"Set it where the daemon is started, in ~/.profile say: export {name}=…"
        aside().print(words, style="yellow")
    return name


def _is_near(address: str) -> bool:
    host = urlsplit(f"//{address}").hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".lan"))
