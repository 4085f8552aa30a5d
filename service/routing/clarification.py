"""Asking a person where a message belongs, instead of guessing.

The message opens a run loop at once, so that it is as safe as any other, and the question stands
before all work there. Whoever answers lets that loop go on, or has the message moved.
"""

from __future__ import annotations

from service.domain.history.human_input import NEW_RUN_LOOP, InputReceived, InputRequired
from service.domain.ids import new_id
from service.domain.routes import Route
from service.domain.text import main_script
from service.tuning import ASKED_LEAST_PROBABILITY, ASKED_MOST_CANDIDATES


def rather_asked(route: Route, *, below: float) -> Route:
    """The route; or, where it is less sure than that, one that has a person asked.

    Args:
        route: as it was decided, with the candidates that were weighed.
        below: the least confidence with which it is not asked; 0: it never is.
    """
    if not route.candidates or route.confidence >= below or route.method == "explicit":
        return route
    return route.model_copy(
        update={
            "decision": "new",
            "run_loop_id": None,
            "method": "asked",
            "alternatives": (),  # the question has them
            # Without the names of the topics: the question has these, in one place.
            "reason": "it is not clear which topic it belongs to: you are asked",
        }
    )


def question(route: Route, words: str) -> InputRequired:
    """What a person is asked of a message, in its language.

    Args:
        route: of `rather_asked`; its candidates are likeliest first.
        words: the message.
    """
    chinese = main_script(words) == "cjk"
    likely = [each for each in route.candidates if each.probability >= ASKED_LEAST_PROBABILITY]
    offered = (likely or route.candidates[:1])[:ASKED_MOST_CANDIDATES]
    options = [each.goal for each in offered]
    options.append("一件新的事" if chinese else "something new")
    ids = [each.run_loop_id for each in offered]
    return InputRequired(
        request_id=new_id(),
        kind="select",
        prompt="这说的是哪件事？" if chinese else "What is this about?",
        options=_distinct(options, [*ids, NEW_RUN_LOOP]),
        about="route",
        run_loop_ids=tuple(ids),
    )


def _distinct(options: list[str], ids: list[str]) -> tuple[str, ...]:
    """Options of which no two are the same: an answer names one by its words."""
    return tuple(
        option if options.count(option) == 1 else f"{option} · {run_loop_id}"
        for option, run_loop_id in zip(options, ids, strict=True)
    )


def as_kept(request: InputRequired, received: InputReceived) -> InputReceived:
    """An answer as it is journaled: with the id of the chosen loop, in place of what that is about.

    So the words of a topic stand in the question alone.
    """
    if request.about != "route":
        return received
    chosen = request.options.index(received.choices[0])
    ids = (*request.run_loop_ids, NEW_RUN_LOOP)
    return received.model_copy(update={"choices": (ids[chosen],)})
