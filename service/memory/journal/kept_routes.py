"""How the journal keeps what the router tells of other run loops: by their ids, not their goals.

Whoever reads a decision, or a question where a message belongs, is told what those run loops are
about as of now.
"""

from __future__ import annotations

from collections.abc import Iterator

from service.domain.history.events import EventBody, RouteDecided
from service.domain.history.human_input import InputRequired
from service.domain.history.references import Goal, Told


def goals_told(body: EventBody) -> tuple[Told, ...]:
    """Where an event tells goals, as the router writes them.

    >>> from service.domain.routes import Route, RouteCandidate
    >>> garden = RouteCandidate(run_loop_id="a", goal="Plant tulips", probability=0.9)
    >>> reason = "it goes on with “Plant tulips”: it replies to what was said there last"
    >>> route = Route(decision="join", run_loop_id="a", confidence=0.9, method="words",
    ...     reason=reason, candidates=(garden,))
    >>> _, why = goals_told(RouteDecided(message_id="m", route=route))
    >>> why.field, why.words[:2]
    ('route.reason', ('it goes on with “', Goal(goal_of='a')))
    """
    if isinstance(body, RouteDecided):
        return tuple(_in_route(body))
    if isinstance(body, InputRequired) and body.about == "route":
        return tuple(_in_question(body))
    return ()


def _in_route(body: RouteDecided) -> Iterator[Told]:
    route = body.route
    for place, each in enumerate(route.candidates):
        yield Told(field=f"route.candidates.{place}.goal", words=(Goal(goal_of=each.run_loop_id),))
    # Two may be about the same: the one that was chosen is quoted.
    for each in sorted(route.candidates, key=lambda c: c.run_loop_id != route.run_loop_id):
        before, quote, after = route.reason.partition(f"“{each.goal}”")
        if quote:
            words = (f"{before}“", Goal(goal_of=each.run_loop_id), f"”{after}")
            yield Told(field="route.reason", words=words)
            return


def _in_question(body: InputRequired) -> Iterator[Told]:
    # The last option is a new topic.
    for place, (option, its) in enumerate(zip(body.options, body.run_loop_ids, strict=False)):
        goal = Goal(goal_of=its)
        is_like_another = option.endswith(suffix := f" · {its}")
        words = (goal, suffix) if is_like_another else (goal,)
        yield Told(field=f"options.{place}", words=words)
