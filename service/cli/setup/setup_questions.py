"""The questions of the setup: what a person types, and what Enter means."""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress

from service.cli.chat.argument_editor import ask_line
from service.cli.chat.human_questions import NO, YES
from service.cli.terminal.output import aside

_QUIT = frozenset(("q", "quit", "exit", "/q", "/quit", "退出"))


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


def ask_secret(prompt: str) -> str:
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
