"""How routes, tool calls and other things are put into words for the lines of a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from service.cli.terminal.output import one_line, short_id
from service.domain.conversation.messages import FinishReason
from service.domain.history.events import CompactionFinished
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.routes import Route, RouteMethod, alternatives_of
from service.wire.run_loop_bodies import DecidedRoute, RunLoopLine
from service.wire.send_bodies import Part

_METHODS: dict[RouteMethod, str] = {
    "explicit": "named",
    "embedding": "by meaning",
    "words": "by its words",
    "llm": "judged by the model",
    "person": "moved here",
    "asked": "you are asked",
    "fallback": "as a last resort",
}
_MOST_OTHERS = 2
_LEAST_PROBABILITY = 0.01
_GOAL_WIDTH = 28


def route_in_words(route: Route, run_loop_id: str) -> str:
    """Where a message went and why, as a line.

    A reason that quotes a goal tells which topic it is; else the goal is told beside the id.
    """
    reason = route.reason.removeprefix("it is ")
    where = f"new run loop {short_id(run_loop_id)}"
    if route.decision == "join":
        where = f"joined {short_id(run_loop_id)}"
        goal = next((c.goal for c in route.candidates if c.run_loop_id == run_loop_id), "")
        if goal and "“" not in reason:
            where += f" “{one_line(goal, 40)}”"
    elif route.predecessor_id:
        where += f", after {short_id(route.predecessor_id)}"
    return f"{where} · {reason}"


def part_in_words(part: Part) -> str:
    """Where a part of a message went, as a line.

    >>> part_in_words(Part(message_id="m.2", run_loop_id="trip", goal="book\\na flight"))
    'also: “book a flight” · in run loop trip'

    What waits for an answer is named with where to find the question.
    """
    if part.run_loop_id is None:
        return "also: another part of it is safe, and on its way to its run loop"
    goal = one_line(part.goal, 60)
    where = short_id(part.run_loop_id)
    asks = f", which waits for you: rondo loops show {where}"
    return f"also: “{goal}” · in run loop {where}{asks if part.waits_for_input else ''}"


def arguments_in_words(arguments: str) -> str:
    """A call's arguments as a person would write them; as they are, when they are no JSON object.

    >>> arguments_in_words('{"expression": "2 + 2", "digits": 3}')
    "expression='2 + 2', digits=3"
    >>> arguments_in_words('{"cut')
    '{"cut'
    """
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(values, dict):
        return arguments
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def compaction_in_words(done: CompactionFinished) -> str:
    """What became of the oldest rounds of a long conversation.

    >>> compaction_in_words(CompactionFinished(
    ...     messages=14, method="model", tokens_before=12300, tokens_after=4100
    ... ))
    'summarised 14 messages (12,300 → 4,100 tokens)'
    """
    if not done.messages:
        return "nothing could be summarised; the oldest rounds are left out"
    how = "summarised" if done.method == "model" else "shortened"
    tokens = f"{done.tokens_before:,} → {done.tokens_after:,} tokens"
    return f"{how} {counted(done.messages, 'message')} ({tokens})"


def not_whole_in_words(reason: FinishReason) -> str:
    """Why an answer is not whole.

    >>> not_whole_in_words("length")
    "The answer was cut off at the model's limit of tokens."
    """
    match reason:
        case "length":
            return "The answer was cut off at the model's limit of tokens."
        case "content_filter":
            return "The endpoint's content filter stopped the answer here."


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "piece"), counted(2000, "piece")
    ('1 piece', '2,000 pieces')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def hint(line: RunLoopLine) -> str:
    """Why, in two words.

    >>> from datetime import UTC, datetime
    >>> now = datetime(2026, 3, 1, tzinfo=UTC)
    >>> route = Route(decision="join", confidence=0.914, method="embedding", reason="it is near")
    >>> loop = {"id": "a", "owner": "me", "goal": "a", "status": "idle"}
    >>> hint(RunLoopLine(**loop, created_at=now, updated_at=now, route=route, moved_to=None))
    'joined 91 %'
    """
    if line.moved_to is not None:
        return f"→ {short_id(line.moved_to)}"
    route = line.route
    if route is None:
        return ""
    if route.method == "person" and route.moved_from is None:
        return "as you said"
    if route.undo:
        return "moved back"
    if route.method in ("explicit", "person", "asked"):
        return _METHODS[route.method]
    what = "joined" if route.decision == "join" else "new"
    unsure = ", unsure" if route.alternatives else ""
    return what if route.confidence == 1 else f"{what} {percent(route.confidence)}{unsure}"


def why_lines(why: DecidedRoute, run_loop_id: str) -> list[str]:
    """Why a message is in a run loop: who decided and why; and what else was weighed, if anything.

    >>> from datetime import UTC, datetime
    >>> route = Route(decision="new", confidence=0.9, method="words", reason="its words are new",
    ...     candidates=[{"run_loop_id": "b", "goal": "A bill", "probability": 0.1}],
    ...     new_probability=0.9)
    >>> why = {"message_id": "m", "at": datetime(2026, 3, 1, tzinfo=UTC), "iteration": None}
    >>> why_lines(DecidedRoute(**why, route=route, moved_to=None), "a")
    ['by its words, 90 %: its words are new', 'else “A bill” 10 %']
    """
    route = why.route
    if route.method == "asked" or (route.method == "person" and route.moved_from is None):
        first, others = route.reason, "weighed: "
    elif route.method == "person":
        came = f" from {short_id(route.moved_from)}" if route.moved_from else ""
        how = "you took its move back" if route.undo else "you moved it here"
        first, others = f"{how}{came}", "weighed before: "
    elif route.confidence == 1:  # there was nothing to weigh
        first, others = route.reason, "else "
    else:
        sure = percent(route.confidence)
        first, others = f"{_METHODS[route.method]}, {sure}: {route.reason}", "else "
    if route.alternatives and why.is_here:
        return [first, *unsure_lines(route, run_loop_id, why.message_id)]
    weighed = ", ".join(_weighed(route, run_loop_id))
    return [first, f"{others}{weighed}"] if weighed else [first]


def unsure_lines(route: Route, run_loop_id: str, message_id: str | None = None) -> list[str]:
    """What else an unsure route could have been, and the command that moves the message there.

    >>> route = Route(decision="join", confidence=0.5, method="words", reason="",
    ...     candidates=[{"run_loop_id": "b", "goal": "A bill", "probability": 0.3}],
    ...     new_probability=0.2, alternatives=("b", "new"))
    >>> for line in unsure_lines(route, "a"): print(line)
    unsure, 50 %: it could be “A bill” (b) 30 %, or a new one 20 %
    to move it: rondo loops reroute a --to b, or --new; --undo takes that back
    """
    others = alternatives_of(route)
    named = [
        f"“{one_line(each.goal, _GOAL_WIDTH)}” ({short_id(each.run_loop_id)})"
        if each.run_loop_id != NEW_RUN_LOOP
        else "a new one"
        for each in others
    ]
    could = ", or ".join(
        f"{name} {percent(each.probability)}" for name, each in zip(named, others, strict=True)
    )
    ways = ", or ".join(
        "--new" if each == NEW_RUN_LOOP else f"--to {short_id(each)}" for each in route.alternatives
    )
    of = f" --message {message_id}" if message_id else ""
    command = f"rondo loops reroute {short_id(run_loop_id)}{of}"
    return [
        f"unsure, {percent(route.confidence)}: it could be {could}",
        f"to move it: {command} {ways}; --undo takes that back",
    ]


def message_lines(whys: Iterable[DecidedRoute], run_loop_id: str) -> list[str]:
    """Each message by its id, as `reroute --message` takes it, and why it is in the run loop."""
    lines: dict[str, list[str]] = {}
    for why in whys:  # one that was asked about has been decided upon twice
        lines.setdefault(why.message_id, []).extend(why_lines(why, run_loop_id))
    return [
        line
        for message_id, reasons in lines.items()
        for line in (f"message {message_id}", *reasons)
    ]


def whys_at(whys: Iterable[DecidedRoute], iteration: int, *, is_last: bool) -> list[DecidedRoute]:
    """Those of the messages that an iteration has observed; in the last one, of those that wait."""
    return [
        why
        for why in whys
        if why.is_here and (why.iteration == iteration or (why.iteration is None and is_last))
    ]


def _weighed(route: Route, run_loop_id: str) -> Sequence[str]:
    """The likeliest of what was not chosen; of all, where the router has chosen nothing."""
    by_person = route.method in ("person", "asked")
    others = [
        (candidate.probability, f"“{one_line(candidate.goal, _GOAL_WIDTH)}”")
        for candidate in route.candidates
        if by_person or candidate.run_loop_id != run_loop_id
    ]
    if route.new_probability is not None and (by_person or route.decision == "join"):
        others.append((route.new_probability, "a new one"))
    others.sort(key=lambda each: each[0], reverse=True)
    return [
        f"{name} {percent(probability)}"
        for probability, name in others[: _MOST_OTHERS + by_person]
        if probability >= _LEAST_PROBABILITY
    ]


def percent(share: float) -> str:
    """A probability as people say it."""
    return f"{share * 100:.0f} %"
