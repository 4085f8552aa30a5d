"""How routes, tool calls and other things are put into words for a line of the terminal."""

from __future__ import annotations

import json

from service.cli.terminal.output import one_line, short_id
from service.domain.conversation.messages import FinishReason
from service.domain.history.events import CompactionFinished
from service.domain.routes import Route
from service.wire.send_bodies import Part


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
