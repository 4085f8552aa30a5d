"""Writing settings as TOML (https://toml.io/en/v1.0.0): tables of plain values, one level deep."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue


def dump(settings: Mapping[str, JsonValue]) -> str:
    """Settings as TOML. What is not set (None) is a comment, as TOML has no word for it.

    >>> print(dump({"level": "info", "llm": {"model": "小", "seed": None}}), end="")
    level = "info"
    <BLANKLINE>
    [llm]
    model = "小"
    # seed is not set
    """
    lines = [_line(name, value) for name, value in settings.items() if not isinstance(value, dict)]
    for name, value in settings.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]", *(_line(inner, each) for inner, each in value.items())]
    return "\n".join(lines) + "\n"


def _line(name: str, value: JsonValue) -> str:
    if value is None:
        return f"# {name} is not set"
    # A JSON string, number, boolean or list of them is one of TOML too, DEL aside.
    return f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
