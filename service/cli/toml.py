"""Writing settings as TOML (https://toml.io/en/v1.0.0): plain values, lists of them, and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue


def dump(settings: Mapping[str, JsonValue]) -> str:
    """Settings as TOML. What is not set (None) is a comment, as TOML has no word for it.

    >>> print(dump({"level": "info", "llm": {"model": "小", "seed": None}}), end="")
    level = "info"
    <BLANKLINE>
    [llm]
    model = "小"
    # seed is not set
    >>> print(dump({"llm": {"prices": {"input": 2.0}, "model": "m"}}), end="")
    <BLANKLINE>
    [llm]
    model = "m"
    <BLANKLINE>
    [llm.prices]
    input = 2.0
    """
    return "\n".join(_lines(settings, "")) + "\n"


def _lines(table: Mapping[str, JsonValue], path: str) -> Iterator[str]:
    # In TOML, what follows the head of a table belongs to it: the tables within it come last.
    for name, value in table.items():
        if not isinstance(value, dict):
            yield _line(_key(name), value)
    for name, value in table.items():
        if isinstance(value, dict):
            inner = f"{path}{_key(name)}"
            yield from ("", f"[{inner}]")
            yield from _lines(value, f"{inner}.")


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _line(name: str, value: JsonValue) -> str:
    if value is None:
        return f"# {name} is not set"
    # A JSON string, number, boolean or list of them is one of TOML too, DEL aside.
    return f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
