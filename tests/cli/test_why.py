"""Why messages are where they are, in words for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from service.cli.views.phrases import message_lines, why_lines
from service.domain.routes import Route, RouteCandidate
from service.wire.run_loop_bodies import DecidedRoute

ASKED = Route(
    decision="new",
    confidence=0.47,
    method="asked",
    reason="you are asked",
    candidates=(
        RouteCandidate(run_loop_id="flour", goal="Wholemeal flour", probability=0.47),
        RouteCandidate(run_loop_id="trip", goal="去杭州", probability=0.07),
    ),
    new_probability=0.46,
)
SAID = Route(
    decision="new", confidence=1.0, method="person", reason="you said that it is a new one"
)


def came(message_id: str, route: Route) -> DecidedRoute:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return DecidedRoute(message_id=message_id, at=at, route=route, iteration=None, moved_to=None)


def test_where_a_person_is_asked_a_new_topic_is_among_what_was_weighed() -> None:
    _, weighed = why_lines(came("m", ASKED), "own")
    assert weighed == "weighed: “Wholemeal flour” 47 %, a new one 46 %, “去杭州” 7 %"


def test_a_message_that_was_decided_upon_twice_is_named_once_with_both_reasons() -> None:
    whys = [came("m", route) for route in (ASKED, SAID)]
    whys.append(came("n", SAID))
    lines = message_lines(whys, "own")
    assert [line for line in lines if line.startswith("message ")] == ["message m", "message n"]
    assert lines[-3:] == [SAID.reason, "message n", SAID.reason]
    assert lines[1] == "you are asked"
