"""Whether something, as it was before words of it were forgotten, may have been something else.

>>> may_have_been("She said: [forgotten], and left.", "She said: nothing, and left.")
True
"""

from __future__ import annotations

import json
from typing import Any

from service.domain.forgetting_terms import FORGOTTEN, FORGOTTEN_ARGUMENTS
from service.domain.run_loops import Iteration


def iteration_may_have_been(left: Iteration, whole: Iteration) -> bool:
    """Whether an iteration is what forgetting has left of another one.

    Args:
        left: as it is here; one that was forgotten whole, or moved away, may have been any.
        whole: what it may have been.
    """
    if left.forgotten or left.moved_to is not None:
        return True
    return may_have_been(left.model_dump(), whole.model_dump())


def may_have_been(left: Any, whole: Any) -> bool:
    """The same for texts, in which each mark stands for any words, and for JSON of such."""
    match left, whole:
        case str(), str():
            return left == whole or (FORGOTTEN in left and _fits(left, whole))
        case dict(), dict():
            return left.keys() == whole.keys() and all(
                _arguments_fit(left[key], whole[key])
                if key == "arguments"
                else may_have_been(left[key], whole[key])
                for key in left
            )
        case ((list() | tuple()), (list() | tuple())):
            return len(left) == len(whole) and all(map(may_have_been, left, whole))
    return bool(left == whole)


def _arguments_fit(left: Any, whole: Any) -> bool:
    """Arguments of tool calls are JSON in a text, which forgetting writes anew."""
    if left in (whole, FORGOTTEN_ARGUMENTS):
        return True
    try:
        return FORGOTTEN in left and may_have_been(json.loads(left), json.loads(whole))
    except (TypeError, ValueError):
        return may_have_been(left, whole)


def _fits(left: str, whole: str) -> bool:
    first, *between, last = left.split(FORGOTTEN)
    if len(whole) < len(first) + len(last):
        return False
    if not (whole.startswith(first) and whole.endswith(last)):
        return False
    at, end = len(first), len(whole) - len(last)
    for part in between:
        position = whole.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return True
