"""The questions of the setup: what a person types, and what Enter means.

Among them are an address and a key, where none were found.
"""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from service.cli.chat.argument_editor import ask_line
from service.cli.chat.human_questions import NO, YES
from service.cli.terminal.output import aside
from service.llm.discovery.providers import PROVIDERS, Provider, provider

_QUIT = frozenset(("q", "quit", "exit", "/q", "/quit", "退出"))
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class LeftError(Exception):
    """The person would rather leave everything as it is."""


def ask(prompt: str) -> str:
    """What a person types, without the spaces around it.

    Raises:
        LeftError: ``q``, or Ctrl-D.
        KeyboardInterrupt: Ctrl-C.
    """
    with suppress(ImportError):  # not on every platform
        import readline  # noqa: F401  importing it gives `input` editing
    try:
        said = ask_line(prompt).strip()
    except EOFError:
        aside().print()
        raise LeftError from None
    if said.lower() in _QUIT:
        raise LeftError
    return said


def ask_yes(prompt: str, *, default: bool) -> bool:
    """Whether a person says yes; Enter says what the capital letter says.

    Raises:
        LeftError: ``q``, or Ctrl-D.
        KeyboardInterrupt: Ctrl-C.
    """
    while True:
        said = ask(f"{prompt} [{'Y/n' if default else 'y/N'}] › ").lower()
        if not said:
            return default
        if said in YES or said in NO:
            return said in YES
        aside().print("Type y or n; q leaves everything as it is.", style="dim")


def _ask_secret(prompt: str) -> str:
    """A key, which is not shown while it is typed. Empty: none.

    Raises:
        LeftError: Ctrl-D.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        return getpass.getpass(prompt, stream=sys.stderr).strip()
    except EOFError:
        aside().print()
        raise LeftError from None


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
    return _ask_secret(f"Key for {name} (not shown; Enter: none) › ")


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
