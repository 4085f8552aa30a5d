"""Routes that the router is unsure of tell what else they could have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.errors import ConfigurationError
from service.domain.history.events import RouteDecided
from service.domain.routes import Route, RouteCandidate, alternatives_of
from service.routing.candidate_loops import with_alternatives
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import running_agent, sent

anyio = pytest.mark.anyio

CANDIDATES = tuple(
    RouteCandidate(run_loop_id=name, goal=f"about {name}", probability=share)
    for name, share in (("a", 0.4), ("b", 0.2), ("c", 0.08), ("d", 0.06), ("e", 0.01))
)
JOINED = Route(
    decision="join",
    run_loop_id="a",
    confidence=0.4,
    method="words",
    reason="",
    candidates=CANDIDATES,
    new_probability=0.25,
)


def test_an_unsure_route_names_the_likeliest_others_and_a_new_one_among_them() -> None:
    route = with_alternatives(JOINED, below=0.6)
    assert route.alternatives == ("new", "b", "c")
    others = [(each.goal, each.probability) for each in alternatives_of(route)]
    assert others == [("", 0.25), ("about b", 0.2), ("about c", 0.08)]


def test_a_message_that_opened_a_run_loop_could_have_joined_the_likeliest_others() -> None:
    opened = JOINED.model_copy(update={"decision": "new", "run_loop_id": None})
    assert with_alternatives(opened, below=0.6).alternatives == ("a", "b", "c")


def test_where_nothing_else_is_likely_the_likeliest_of_it_is_named_all_the_same() -> None:
    bare = JOINED.model_copy(update={"candidates": CANDIDATES[:1], "new_probability": 0.001})
    assert with_alternatives(bare, below=0.6).alternatives == ("new",)


def test_a_sure_route_and_one_where_nothing_was_weighed_name_nothing() -> None:
    for route in (
        JOINED.model_copy(update={"confidence": 0.6}),
        Route(decision="new", confidence=0, method="fallback", reason="nothing is open"),
    ):
        assert with_alternatives(route, below=0.6) == route
    assert with_alternatives(JOINED, below=0).alternatives == ()


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unsure_below"):
        RouterOptions(unsure_below=1.5)


@anyio
async def test_the_journal_tells_what_else_a_message_could_have_been_until_a_person_moves_it(
    tmp_path: Path,
) -> None:
    always = RouterOptions(use_llm=False, unsure_below=1)
    async with running_agent(tmp_path, router=always) as agent:
        first = (await sent(agent, "Please find a hotel in Bonn for Friday."))[0]
        events = await sent(agent, "And does the hotel in Bonn have breakfast?")
        [route] = [e.body.route for e in events if isinstance(e.body, RouteDecided)]
        assert (route.run_loop_id, route.alternatives) == (first.run_loop_id, ("new",))
        moved = await agent.reroute(first.run_loop_id, to=route.alternatives[0])
        there = await agent.memory.journal.read(run_loop_id=moved.to_run_loop_id)
        [now] = [e.body.route for e in there if isinstance(e.body, RouteDecided)]
        assert (now.method, now.alternatives) == ("person", ())
        assert alternatives_of(now) == ()


@anyio
async def test_a_person_who_is_asked_is_not_told_twice(tmp_path: Path) -> None:
    asking = RouterOptions(use_llm=False, unsure_below=1, ask_below=1)
    async with running_agent(tmp_path, router=asking) as agent:
        await sent(agent, "Please find a hotel in Bonn for Friday.")
        events = await sent(agent, "And does the hotel in Bonn have breakfast?")
        [route] = [e.body.route for e in events if isinstance(e.body, RouteDecided)]
        assert (route.method, route.alternatives) == ("asked", ())
