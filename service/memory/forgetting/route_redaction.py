"""Routes, and questions about them, without what they tell of goals that were forgotten.

The router writes down what the run loops that it chose from are about: as the goal of each
candidate, and in quotation marks in its reason; on one line, and shortened where they are long.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable

from service.domain.forgetting_terms import FORGOTTEN
from service.domain.history.human_input import InputRequired
from service.domain.routes import Route

_QUOTED = re.compile("“(.*)”", re.DOTALL)  # as far as possible: a goal may hold marks of its own


class Goals:
    """Some goals, by their words.

    >>> "Rent a flat…" in Goals(["Rent a flat in Basel"])
    True
    """

    def __init__(self, goals: Iterable[str]) -> None:
        """Learn them; there may be very many, and long ones."""
        self._lines = sorted({" ".join(goal.split()) for goal in goals} - {""})

    def __contains__(self, quoted: str) -> bool:
        """Whether this is one of them, whole or its beginning."""
        shortened = quoted.endswith("…") and len(quoted) > 1
        begins = quoted[:-1] if shortened else quoted
        at = bisect_left(self._lines, begins)
        if at == len(self._lines):
            return False
        found = self._lines[at]
        return found == quoted or (shortened and found.startswith(begins))


def without_options(request: InputRequired, gone: Container[str], goals: Goals) -> InputRequired:
    """A question that tells nothing of some goals; the same where it does not.

    Args:
        request: any; only one that asks where a message belongs tells of goals.
        gone: ids of the run loops whose goals go.
        goals: these goals, for options that came along from another loop.
    """
    if request.about != "route":
        return request
    named = zip(request.options, request.run_loop_ids, strict=False)  # the last is a new matter
    options = [
        FORGOTTEN if each in gone or option.removesuffix(f" · {each}") in goals else option
        for option, each in named
    ]
    options += request.options[len(options) :]
    if tuple(options) == request.options:
        return request
    return request.model_copy(update={"options": tuple(options)})


def without_goals(route: Route, gone: Container[str], goals: Goals) -> Route:
    """A route that tells nothing of some goals; the same where it tells nothing of them.

    Args:
        route: as it was decided.
        gone: ids of the run loops whose goals go.
        goals: these goals, for where they are quoted without an id.
    """
    candidates = tuple(
        each.model_copy(update={"goal": FORGOTTEN})
        if each.run_loop_id in gone or each.goal in goals
        else each
        for each in route.candidates
    )
    reason = route.reason
    quoted = _QUOTED.search(reason)
    if quoted and (
        (route.run_loop_id is not None and route.run_loop_id in gone) or quoted[1] in goals
    ):
        reason = f"{reason[: quoted.start(1)]}{FORGOTTEN}{reason[quoted.end(1) :]}"
    if (candidates, reason) == (route.candidates, route.reason):
        return route
    return route.model_copy(update={"candidates": candidates, "reason": reason})
