"""Unsure routes: what else a message could have belonged to, for a person to see and mend."""

from __future__ import annotations

from service.domain.history.human_input import NEW_MATTER
from service.domain.routes import Route
from service.tuning import ROUTER_ALTERNATIVE_LEAST, ROUTER_MOST_ALTERNATIVES


def with_alternatives(route: Route, *, below: float) -> Route:
    """The route; where it is less sure than that, with the likeliest of what was not chosen.

    Args:
        route: as it was decided, with the candidates that were weighed.
        below: the least confidence with which a route is sure; 0: every one is.
    """
    if route.confidence >= below or route.new_probability is None:
        return route
    others = [
        (each.probability, each.run_loop_id)
        for each in route.candidates
        if each.run_loop_id != route.run_loop_id
    ]
    if route.decision == "join":
        others.append((route.new_probability, NEW_MATTER))
    others.sort(key=lambda each: each[0], reverse=True)
    likely = [each for each in others if each[0] >= ROUTER_ALTERNATIVE_LEAST]
    shown = (likely or others[:1])[:ROUTER_MOST_ALTERNATIVES]
    return route.model_copy(update={"alternatives": tuple(name for _, name in shown)})
