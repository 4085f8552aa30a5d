"""The router: where a message belongs, decided by what is sure first, always with a reason.

Without an embedder, so by words alone: that is quick, and leads through the same steps.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from service.agent.agent_settings import options_from_settings
from service.config import Settings
from service.domain.errors import ConfigurationError, LLMConnectionError
from service.domain.history.events import RunLoopCancelled, RunLoopCompleted
from service.domain.history.fold import evolve
from service.domain.routes import Route
from service.routing.router import Router, agreed
from service.routing.routing_options import RouterOptions
from service.tuning import ROUTER_LLM_CANDIDATES, ROUTER_LLM_LEAST
from tests.support.agent.routing_loops import INVOICE, LISBON, NOW, Judge, loop, no_embedder
from tests.support.histories import event_at

pytestmark = pytest.mark.anyio

HOTEL = "Is the Hotel Aurora quiet at night?"
PRICE = "And how much was it?"
JUGGLE = "Hello, I'd like to learn how to juggle."
ALWAYS = RouterOptions(sure_above=0)
NEVER_SURE = RouterOptions(sure_above=1, llm_timeout_seconds=0.05)


def total(route: Route) -> float:
    assert route.new_probability is not None
    return sum(each.probability for each in route.candidates) + route.new_probability


async def test_a_named_active_loop_is_joined() -> None:
    route = await Router(Judge("{}"), no_embedder).route(
        "?", active=[LISBON, INVOICE], now=NOW, requested=INVOICE
    )
    assert (route.decision, route.run_loop_id, route.method) == ("join", "invoice", "explicit")


async def test_a_named_cancelled_loop_is_joined_and_goes_on() -> None:
    stopped = evolve(INVOICE, event_at(99, RunLoopCancelled(), run_loop_id="invoice"))
    route = await Router(Judge("{}"), no_embedder).route("?", active=[], now=NOW, requested=stopped)
    assert (route.run_loop_id, route.method) == ("invoice", "explicit")
    assert "cancelled" in route.reason


async def test_a_named_finished_loop_becomes_the_predecessor_of_a_new_one() -> None:
    done = evolve(INVOICE, event_at(99, RunLoopCompleted(), run_loop_id="invoice"))
    route = await Router(Judge("{}"), no_embedder).route(
        "?", active=[LISBON], now=NOW, requested=done
    )
    assert (route.decision, route.predecessor_id) == ("new", "invoice")


async def test_without_classifying_every_message_opens_a_loop() -> None:
    router = Router(Judge("{}"), no_embedder, auto_classify=False)
    route = await router.route(HOTEL, active=[LISBON], now=NOW)
    assert route.decision == "new"
    assert "auto_classify" in route.reason
    assert route.latency_ms is None


async def test_with_nothing_active_a_message_opens_a_loop_and_no_model_is_asked() -> None:
    judge = Judge("{}")
    route = await Router(judge, no_embedder, NEVER_SURE).route("?", active=[], now=NOW)
    assert (route.decision, route.new_probability) == ("new", None)
    assert judge.asked == []


async def test_what_is_sure_is_joined_without_asking_the_language_model() -> None:
    judge = Judge("{}")
    route = await Router(judge, no_embedder).route(HOTEL, active=[INVOICE, LISBON], now=NOW)
    assert (route.decision, route.run_loop_id, route.method) == ("join", "lisbon", "words")
    assert route.reason.startswith("it goes on with “plan a weekend in Lisbon”: ")
    assert judge.asked == []


async def test_what_surely_opens_a_topic_opens_a_loop_without_asking_the_language_model() -> None:
    judge = Judge("{}")
    route = await Router(judge, no_embedder).route(JUGGLE, active=[INVOICE, LISBON], now=NOW)
    assert (route.decision, route.run_loop_id, route.method) == ("new", None, "words")
    assert route.reason.startswith("it opens a new topic: ")
    assert route.confidence == route.new_probability
    assert judge.asked == []


async def test_the_record_tells_all_that_was_weighed_the_likeliest_first() -> None:
    route = await Router(Judge("{}"), no_embedder, ALWAYS).route(
        HOTEL, active=[INVOICE, LISBON], now=NOW
    )
    assert [each.run_loop_id for each in route.candidates] == ["lisbon", "invoice"]
    assert [each.goal for each in route.candidates] == [LISBON.goal, INVOICE.goal]
    assert route.confidence == route.candidates[0].probability
    assert total(route) == pytest.approx(1, abs=1e-3)
    assert route.latency_ms is not None


@pytest.mark.parametrize("options", [ALWAYS, NEVER_SURE])
async def test_from_the_confidence_on_that_was_set_the_language_model_is_not_asked(
    options: RouterOptions,
) -> None:
    judge = Judge('{"continues": "a new matter"}')
    route = await Router(judge, no_embedder, options).route(HOTEL, active=[LISBON], now=NOW)
    assert route.method == ("words" if options is ALWAYS else "llm")
    assert len(judge.asked) == (options is NEVER_SURE)


async def test_what_is_unsure_is_judged_by_the_language_model() -> None:
    judge = Judge('{"continues": "file the invoice of the plumber"}')
    route = await Router(judge, no_embedder, NEVER_SURE).route(
        PRICE, active=[INVOICE, LISBON], now=NOW
    )
    assert (route.decision, route.run_loop_id, route.method) == ("join", "invoice", "llm")
    assert "“file the invoice of the plumber”" in route.reason
    assert [each.run_loop_id for each in route.candidates] == ["invoice", "lisbon"]
    assert total(route) == pytest.approx(1, abs=1e-3)
    assert route.latency_ms is not None


async def test_the_language_model_may_judge_that_it_is_a_new_topic() -> None:
    judge = Judge('{"continues": "a new matter"}')
    route = await Router(judge, no_embedder, NEVER_SURE).route(HOTEL, active=[LISBON], now=NOW)
    assert (route.decision, route.method) == ("new", "llm")


async def test_a_judgement_that_agrees_with_the_trained_model_counts_for_more() -> None:
    async def confidence(chosen: str) -> float:
        judge = Judge(f'{{"continues": "{chosen}"}}')
        router = Router(judge, no_embedder, NEVER_SURE)
        return (await router.route(PRICE, active=[INVOICE, LISBON], now=NOW)).confidence

    by_itself = await Router(Judge("{}"), no_embedder, ALWAYS).route(
        PRICE, active=[INVOICE, LISBON], now=NOW
    )
    assert by_itself.run_loop_id == "invoice"
    assert await confidence(INVOICE.goal) > by_itself.confidence > await confidence(LISBON.goal)


def test_two_opinions_make_what_both_hold_for_likely_likelier() -> None:
    assert agreed(0.7) > 0.7
    assert agreed(0.0) == 0.0
    assert agreed(1.0) == 1.0


async def test_only_loops_that_are_at_all_likely_are_offered_to_the_language_model() -> None:
    others = [
        loop(f"n{number}", f"note {number} on topic{number}", "Noted.", ago=60 + number)
        for number in range(20)
    ]
    judge = Judge('{"continues": "a new matter"}')
    route = await Router(judge, no_embedder, NEVER_SURE).route(
        HOTEL, active=[*others, LISBON], now=NOW
    )
    assert judge.labels[0] == LISBON.goal
    assert len(judge.labels) <= ROUTER_LLM_CANDIDATES + 1
    assert len(route.candidates) == 21


async def test_the_language_model_chooses_among_the_likeliest_loops_and_a_new_one() -> None:
    trips = [
        loop(f"t{number}", f"plan a weekend in {city}", "Which hotel do you want?", ago=30 + number)
        for number, city in enumerate(("Lisbon", "Porto", "Rome", "Oslo", "Ghent", "Turin"))
    ]
    judge = Judge('{"continues": "a new matter"}')
    route = await Router(judge, no_embedder, NEVER_SURE).route(
        "And which hotel is cheap?", active=trips, now=NOW
    )
    assert all(each.probability >= ROUTER_LLM_LEAST for each in route.candidates)
    likeliest = [each.goal for each in route.candidates[:ROUTER_LLM_CANDIDATES]]
    assert judge.labels == [*likeliest, "a new matter"]
    assert (route.decision, route.method) == ("new", "llm")


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (Judge(LLMConnectionError("gone")), "cannot be reached"),
        (Judge("no JSON"), "chose none of the topics"),
        (Judge('{"continues": "something else"}'), "chose none of the topics"),
        (Judge("{}", ready=False), "not ready"),
        (Judge("{}", hangs=True), "did not answer within"),
    ],
)
async def test_where_the_language_model_cannot_judge_the_likeliest_is_taken_and_the_reason_says_why(
    judge: Judge, why: str
) -> None:
    router = Router(judge, no_embedder, NEVER_SURE)
    route = await router.route(HOTEL, active=[INVOICE, LISBON], now=NOW)
    assert (route.method, route.run_loop_id) == ("fallback", "lisbon")
    # What was decided comes first: a line of a terminal may have no room for the rest.
    assert route.reason.startswith("most likely it goes on with “plan a weekend in Lisbon”: ")
    assert why in route.reason.partition("; the language model ")[2]


async def test_where_the_language_model_is_not_to_be_asked_the_likeliest_is_taken() -> None:
    judge = Judge("{}")
    router = Router(judge, no_embedder, RouterOptions(use_llm=False, sure_above=1))
    route = await router.route(JUGGLE, active=[INVOICE, LISBON], now=NOW)
    assert (route.method, route.decision) == ("fallback", "new")
    assert "router.use_llm" in route.reason
    assert judge.asked == []


@pytest.mark.parametrize("answer", ['{"continues": "a new matter"}', "no JSON"])
async def test_a_goal_is_quoted_so_that_forgetting_finds_it(answer: str) -> None:
    quoting = loop("quoting", 'He said “no” and "yes" to ” the” trip', "I see. Which trip?")
    judge = Judge(answer)
    router = Router(judge, no_embedder, NEVER_SURE)
    route = await router.route("the trip to Bonn", active=[quoting], now=NOW)
    quoted = re.search("“(.*)”", route.reason)
    assert quoted is None or quoted[1] == route.candidates[0].goal


@pytest.mark.parametrize(
    "text", ["", " \n ", "\ud83d", "👍🏽", "?", "\x00", "那" * 100_000, "a" * 1_000_000, "]}\n- x"]
)
@pytest.mark.parametrize("options", [ALWAYS, NEVER_SURE])
async def test_any_text_is_routed(text: str, options: RouterOptions) -> None:
    silent = loop("silent", text or "(an image)")
    judge = Judge('{"continues": "a new matter"}')
    router = Router(judge, no_embedder, options)
    route = await router.route(text, active=[LISBON, silent], now=NOW)
    assert total(route) == pytest.approx(1, abs=1e-3)
    assert route.reason


async def test_a_clock_that_was_set_back_is_no_obstacle() -> None:
    router = Router(Judge("{}"), no_embedder, ALWAYS)
    route = await router.route(HOTEL, active=[LISBON, INVOICE], now=NOW - timedelta(days=2))
    assert route.run_loop_id == "lisbon"


async def test_of_very_many_open_loops_the_newest_are_weighed() -> None:
    crowd = [loop(f"n{number}", f"note {number}", "Noted.") for number in range(60)]
    router = Router(Judge("{}"), no_embedder, ALWAYS)
    route = await router.route(HOTEL, active=[LISBON, *crowd], now=NOW)
    assert route.run_loop_id == "lisbon"
    assert len(route.candidates) == 48


@pytest.mark.parametrize(
    ("llm", "router", "asks"),
    [
        ({"provider": "embedded"}, {}, False),
        ({"provider": "embedded"}, {"use_llm": True}, True),
        ({"base_url": "http://localhost:1/v1"}, {}, True),
        ({"base_url": "http://localhost:1/v1"}, {"use_llm": "false"}, False),
    ],
)
def test_the_embedded_model_is_asked_only_where_the_settings_say_so(
    llm: dict[str, Any], router: dict[str, Any], asks: bool
) -> None:
    settings = Settings.model_validate({"llm": llm, "router": router})
    assert options_from_settings(settings).router == RouterOptions(use_llm=asks)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sure_above": 1.1},
        {"sure_above": float("nan")},
        {"ask_below": -0.1},
        {"llm_timeout_seconds": 0},
        {"llm_timeout_seconds": float("inf")},
    ],
)
def test_options_out_of_their_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"router.{next(iter(wrong))}"):
        RouterOptions(**wrong)
