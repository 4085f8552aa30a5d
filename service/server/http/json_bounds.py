"""Values from JSON that can be stored, found again, and sent on.

JSON's grammar has room for more: numbers beyond what a double holds, halves of characters, nesting
without end (https://www.rfc-editor.org/rfc/rfc8259#section-9 lets a reader set such limits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import JsonValue

MOST_LEVELS = 100
"""How deep lists and objects may be nested."""
_LARGEST = 2**63 - 1  # what SQLite, Chroma and most programs hold


@dataclass(frozen=True, slots=True)
class Unusable:
    """What is wrong with a value, and where in the whole."""

    place: tuple[str | int, ...]
    message: str


def unusable(value: JsonValue) -> Unusable | None:
    """Why a value cannot be stored and sent on; None: it can.

    >>> unusable({"a": [1, 1e999]})
    Unusable(place=('a', 1), message='it is not a finite number')
    >>> unusable({"a": "词", "b": None}) is None
    True
    """
    waiting: list[tuple[tuple[str | int, ...], JsonValue]] = [((), value)]
    while waiting:
        place, each = waiting.pop()
        message = _wrong(each, len(place))
        if message is not None:
            return Unusable(place, message)
        if isinstance(each, dict):
            for name, inner in each.items():
                if _is_broken(name):
                    return Unusable(place, f"a name in it {_HALF}")
                waiting.append(((*place, name), inner))
        elif isinstance(each, list):
            waiting.extend(((*place, index), inner) for index, inner in enumerate(each))
    return None


_HALF = "holds half a character (a lone surrogate)"


def _wrong(value: JsonValue, level: int) -> str | None:
    match value:
        case bool() | None:
            return None
        case float() if not math.isfinite(value):
            return "it is not a finite number"
        case int() if not -_LARGEST <= value <= _LARGEST:
            return "it is a whole number beyond 64 bits; send it as a text"
        case str() if _is_broken(value):
            return f"it {_HALF}"
        case dict() | list() if level >= MOST_LEVELS:
            return f"it is nested more than {MOST_LEVELS} levels deep"
    return None


def _is_broken(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
