"""Run loops that came in from a file: their state, and what can be done about a second one.

Such a loop has no history of single events: its conversation is told from its iterations. What is
here may have lost words that were forgotten since; it is compared with what it may have been.

>>> may_have_been("She said: [forgotten], and left.", "She said: nothing, and left.")
True
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from service.domain.conversation.messages import (
    ContentPart,
    Message,
    TextPart,
    ThinkPart,
    ToolResult,
)
from service.domain.forgetting_terms import FORGOTTEN, FORGOTTEN_ARGUMENTS
from service.domain.history.growing import Growing
from service.domain.history.state import RunLoopState, changed
from service.domain.run_loops import Iteration, RunLoop

if TYPE_CHECKING:
    from service.domain.history.events import Event


def iteration_may_have_been(left: Iteration, whole: Iteration) -> bool:
    """Whether an iteration is what forgetting has left of another one.

    Args:
        left: as it is here; one that was forgotten whole, or moved away, may have been any.
        whole: what it may have been.
    """
    if left.forgotten or left.moved_to is not None:
        return True
    return may_have_been(left.model_dump(), whole.model_dump())


def may_have_been(left: Any, whole: Any) -> bool:
    """The same for texts, in which each mark stands for any words, and for JSON of such."""
    match left, whole:
        case str(), str():
            return left == whole or (FORGOTTEN in left and _fits(left, whole))
        case dict(), dict():
            return left.keys() == whole.keys() and all(
                _arguments_fit(left[key], whole[key])
                if key == "arguments"
                else may_have_been(left[key], whole[key])
                for key in left
            )
        case ((list() | tuple()), (list() | tuple())):
            return len(left) == len(whole) and all(map(may_have_been, left, whole))
    return bool(left == whole)


def _arguments_fit(left: Any, whole: Any) -> bool:
    """Arguments of tool calls are JSON in a text, which forgetting writes anew."""
    if left in (whole, FORGOTTEN_ARGUMENTS):
        return True
    try:
        return FORGOTTEN in left and may_have_been(json.loads(left), json.loads(whole))
    except (TypeError, ValueError):
        return may_have_been(left, whole)


def _fits(left: str, whole: str) -> bool:
    first, *between, last = left.split(FORGOTTEN)
    if len(whole) < len(first) + len(last):
        return False
    if not (whole.startswith(first) and whole.endswith(last)):
        return False
    at, end = len(first), len(whole) - len(last)
    for part in between:
        position = whole.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return True


NO_RESULT = "There is no result: what was imported does not hold one."
"""What the model is shown for a call whose result the file lacks. The iteration stays as it was."""

Standing = Literal["unchanged", "extended", "conflict"]
"""How a loop of a file stands to the one of the same id that is here: nothing of it is new, it has
grown out of it, or it is another one."""


def imported(event: Event, run_loop: RunLoop) -> RunLoopState:
    """The state of a loop whose first event brought it in whole.

    Raises:
        ValueError: the loop is active, or the event has no number.
    """
    if run_loop.is_active or event.seq is None:
        raise ValueError(f"run loop {event.run_loop_id} was imported while it was at work")
    state = RunLoopState(
        id=event.run_loop_id,
        owner=event.owner,
        goal=run_loop.goal,
        status=run_loop.status,
        created_at=run_loop.created_at,
        updated_at=event.at,
        last_seq=event.seq,
    )
    return grown(state, run_loop)


def grown(state: RunLoopState, run_loop: RunLoop) -> RunLoopState:
    """The state of a loop that was brought in anew, and has grown meanwhile.

    One that is active is a fork in its beginning: it takes the words, and goes on or rests.
    """
    messages = conversation(run_loop.iterations)
    state = changed(
        state,
        closed_iterations=Growing(run_loop.iterations[:-1]),
        iteration=run_loop.iterations[-1] if run_loop.iterations else None,
        history=Growing(messages),
        history_size=sum(message.size for message in messages),
        unseen=(),
        pending=(),
        awaiting=None,
        recalled=(),
        cut=False,
        cut_off=False,
        continuations=0,
        thinking=False,
        iterations_since_user=_since_user(run_loop.iterations),
        failures=0,
        failing={},
        repetitions=0,
        last_outcomes=(),
        measured_tokens=0,
        measured_size=0,
    )
    if state.is_active:
        return changed(state, status="idle" if state.is_answered else "running")
    return changed(
        state,
        goal=run_loop.goal,
        status=run_loop.status,
        created_at=run_loop.created_at,
        updated_at=last_moment(run_loop),
        completed_at=run_loop.completed_at,
        predecessor_id=state.predecessor_id or run_loop.predecessor_id,
        problem=None,
    )


def conversation(iterations: tuple[Iteration, ...]) -> list[Message]:
    """Iterations as the messages that a model is shown: each call has exactly one result."""
    messages: list[Message] = []
    for iteration in iterations:
        if iteration.user_message:
            messages.append(Message.user(iteration.user_message))
        said: list[ContentPart] = []
        if iteration.reasoning:
            said.append(ThinkPart(think=iteration.reasoning))
        if iteration.response:
            said.append(TextPart(text=iteration.response))
        calls = tuple({call.id: call for call in iteration.tool_calls}.values())
        if said or calls:
            messages.append(Message(role="assistant", content=tuple(said), tool_calls=calls))
        results = {result.id: result for result in reversed(iteration.tool_results)}
        messages += [
            Message.tool(results.get(call.id) or ToolResult(id=call.id, content=NO_RESULT))
            for call in calls
        ]
    return messages


def last_moment(run_loop: RunLoop) -> datetime:
    """When something last happened in a loop."""
    moments = [iteration.timestamp for iteration in run_loop.iterations]
    return max(
        moment for moment in (*moments, run_loop.created_at, run_loop.completed_at) if moment
    )


def standing(existing: RunLoop, new: RunLoop, *, labels_may_change: bool) -> Standing:
    """How a loop of a file stands to the one of its id that is here.

    The predecessor may differ: it stays as it is here. What was forgotten here was whatever the
    file says.

    Args:
        existing: the one that is here.
        new: the one of the file, which has ended.
        labels_may_change: whether another goal or other metadata with the same words is news, as
            where conversations can be renamed; else it is a conflict.
    """
    new = without_forgotten(existing, new)
    old_turns, new_turns = existing.iterations, new.iterations
    if labels_may_change:
        old_turns, new_turns = _words(old_turns), _words(new_turns)
    elif _labels(existing) != _labels(new):
        return "conflict"
    if old_turns == new_turns:
        return _same_words(existing, new)
    if _is_beginning(new_turns, old_turns):
        return "unchanged"
    if not existing.is_active and _is_beginning(old_turns, new_turns):
        return "extended"
    return "conflict"


def without_forgotten(existing: RunLoop, new: RunLoop) -> RunLoop:
    """A loop of a file, without what was forgotten, or moved away, of the one of its id here.

    Iterations, and the goal, that are as here but for what was forgotten are as they are here.
    """
    pairs = list(zip(existing.iterations, new.iterations, strict=False))
    iterations = tuple(old if iteration_may_have_been(old, each) else each for old, each in pairs)
    # Where the first words were moved away, others tell what the loop is about.
    told_by_others = bool(existing.iterations) and existing.iterations[0].moved_to is not None
    goal = new.goal
    if told_by_others or may_have_been(existing.goal, new.goal):
        goal = existing.goal
    return new.model_copy(
        update={"iterations": iterations + new.iterations[len(pairs) :], "goal": goal}
    )


def _same_words(existing: RunLoop, new: RunLoop) -> Standing:
    if existing.is_active:
        return "unchanged"
    if (_labels(existing), existing.iterations) != (_labels(new), new.iterations):
        return "extended"
    old_end, new_end = (loop.completed_at or loop.created_at for loop in (existing, new))
    if old_end == new_end:
        return "unchanged" if existing.status == new.status else "conflict"
    return "extended" if new_end > old_end else "unchanged"


def _labels(run_loop: RunLoop) -> tuple[object, ...]:
    return (run_loop.goal, run_loop.created_at)


def _words(iterations: tuple[Iteration, ...]) -> tuple[Iteration, ...]:
    return tuple(each.model_copy(update={"metadata": {}}) for each in iterations)


def _is_beginning(short: tuple[Iteration, ...], long: tuple[Iteration, ...]) -> bool:
    """Whether iterations are the first ones of others; the last of them may be less far."""
    if not short:
        return True
    if len(short) > len(long) or short[:-1] != long[: len(short) - 1]:
        return False
    return _less_far(short[-1], long[len(short) - 1])


def _less_far(early: Iteration, late: Iteration) -> bool:
    """Whether an iteration is the same as another one, or that one before it was done."""
    if early == late:
        return True
    alike = (early.user_message, early.timestamp, early.metadata) == (
        late.user_message,
        late.timestamp,
        late.metadata,
    )
    return (
        alike
        and (late.reasoning or "").startswith(early.reasoning or "")
        and (late.response or "").startswith(early.response or "")
        and late.tool_calls[: len(early.tool_calls)] == early.tool_calls
        and late.tool_results[: len(early.tool_results)] == early.tool_results
    )


def _since_user(iterations: tuple[Iteration, ...]) -> int:
    count = 0
    for iteration in reversed(iterations):
        count += 1
        if iteration.user_message:
            break
    return count
