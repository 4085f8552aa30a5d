"""Letting the person at the terminal change the arguments of a tool call."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

import click

from service.cli.daemon.stream_items import Json
from service.cli.terminal.output import aside, visible
from service.cli.terminal.standard_streams import read_line


def read_object(text: str) -> Json:
    """A JSON object as a person wrote it.

    Raises:
        ValueError: it is none; says why.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError('it is no object such as {"name": "value"}')
    return value


def pretty(arguments: str) -> str:
    """Arguments as they are shown: what is no JSON as the model wrote it."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), ensure_ascii=False, indent=2)
    return visible(arguments)


def edit_arguments(arguments: str) -> Json:
    """Let arguments be changed: in ``$VISUAL`` or ``$EDITOR``, else in one line.

    Asks until they are a JSON object.

    Raises:
        EOFError, KeyboardInterrupt: the person would rather not.
    """
    text = pretty(arguments)
    while True:
        text = _changed(text)
        try:
            return read_object(text)
        except ValueError as error:
            aside().print(f"That is not JSON: {error}. Once more, or Ctrl-D.", style="yellow")


def _changed(text: str) -> str:
    if any(os.environ.get(name) for name in ("VISUAL", "EDITOR")):
        try:
            changed = click.edit(text, extension=".json")
        except click.ClickException as error:
            aside().print(f"{error.message} Edit it here instead.", style="yellow")
        else:
            return text if changed is None else changed
    return _line(_in_one_line(text))


def _line(text: str) -> str:
    """A line that begins as this text, where lines can be edited; else one typed anew."""
    prompt = "Arguments, as JSON › "
    try:
        import readline
    except ImportError:  # not on every platform
        return ask_line(prompt)
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        return ask_line(prompt)
    finally:
        readline.set_startup_hook(None)


def ask_line(prompt: str) -> str:
    """A line that a person typed after a prompt, which never gets into what is piped elsewhere.

    Raises:
        EOFError: there is no more.
        KeyboardInterrupt: Ctrl-C.
    """
    if sys.stdout.isatty():
        return read_line(prompt)  # readline must know the prompt to redraw it
    aside().print(prompt, end="")
    return read_line()


def _in_one_line(text: str) -> str:
    with suppress(ValueError, RecursionError):
        return visible(json.dumps(json.loads(text), ensure_ascii=False))
    return " ".join(text.split("\n"))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")
