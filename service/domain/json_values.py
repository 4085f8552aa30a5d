"""Numbers that JSON has no word for: infinities, and what is no number (RFC 8259, section 6).

Python's readers make an infinity of ``1e999``, and its writers write it as ``Infinity``, which no
strict reader takes, SQLite's among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator


def unwritable_number(value: object) -> str | None:
    """Where a value holds a number that JSON cannot hold, in words; None where there is none.

    >>> unwritable_number({"a": [1, float("inf")]})
    'a.1 is Infinity'
    """
    for place, number in _numbers(value):
        if not math.isfinite(number):
            return f"{place or 'it'} is {_name(number)}"
    return None


def writable(value: Any) -> Any:
    """A value with the names of such numbers in their places.

    >>> writable({"a": [1, float("-inf")]})
    {'a': [1, '-Infinity']}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else _name(value)
    if isinstance(value, dict):
        return {writable(name): writable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [writable(item) for item in value]
    return value


def _of_earlier_files(metadata: dict[str, Any]) -> dict[str, Any]:
    return writable(metadata) if unwritable_number(metadata) else metadata


Metadata = Annotated[dict[str, Any], AfterValidator(_of_earlier_files)]
"""What was sent along with a message, as JSON values. Such numbers are refused where a message
comes in; where a file of an earlier version holds one, its name is read in its place."""


def _numbers(value: object) -> Iterator[tuple[str, float]]:
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, float):
            yield place, item
        elif isinstance(item, dict):
            for name, inner in item.items():
                waiting += [(place, name), (f"{place}.{name}".lstrip("."), inner)]
        elif isinstance(item, list | tuple):
            waiting += [(f"{place}.{at}".lstrip("."), inner) for at, inner in enumerate(item)]


def _name(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
