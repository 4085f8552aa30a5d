"""What the router asks when it is not sure, and when it does."""

from __future__ import annotations

from typing import Any

from service.domain.routes import Route, RouteCandidate
from service.routing.clarification import question, rather_asked


def route(*goals: str, probability: float = 0.3, **more: Any) -> Route:
    candidates = tuple(
        RouteCandidate(run_loop_id=f"loop{n}", goal=goal, probability=probability)
        for n, goal in enumerate(goals)
    )
    said = {"decision": "join", "run_loop_id": "loop0", "confidence": 0.4, "method": "words"}
    return Route.model_validate({**said, "reason": "", "candidates": candidates, **more})


def test_the_likeliest_three_are_offered() -> None:
    asked = question(route("a", "b", "c", "d"), "x")
    assert asked.options == ("a", "b", "c", "something new")


def test_the_unlikely_are_not_offered_but_for_the_likeliest() -> None:
    assert question(route("a", "b", probability=0.01), "x").options == ("a", "something new")


def test_two_topics_of_the_same_name_can_be_told_apart() -> None:
    asked = question(route("a", "something new", "a"), "x")
    assert len(set(asked.options)) == 4
    assert asked.options[0].startswith("a")


def test_only_what_is_less_sure_is_asked_about() -> None:
    unsure = route("a")
    assert rather_asked(unsure, below=0.4) == unsure
    assert rather_asked(unsure, below=0.41).method == "asked"
    assert rather_asked(unsure.model_copy(update={"method": "explicit"}), below=1).run_loop_id
    nothing = route()
    assert rather_asked(nothing, below=1) == nothing
