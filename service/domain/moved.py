"""What is left of a run loop when a person moves a message out of it.

What went with the message leaves the conversation that the model sees; its iterations stay where
they are, without words, so that the indexes of the later ones, which anchors name, do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.domain.events import MessageMoved
from service.domain.growing import Growing
from service.domain.run_loops import Iteration, Status
from service.domain.state import RunLoopState, changed


def moved_away(state: RunLoopState, moved: MessageMoved) -> RunLoopState:
    """The state of the loop that messages were moved out of.

    Raises:
        ValueError: the loop has no such iterations or messages.
    """
    unseen = tuple(each for each in state.unseen if each.id not in moved.message_ids)
    state = changed(state, unseen=unseen)
    if moved.iterations[0] < moved.iterations[1]:
        state = _without_iterations(state, moved)
        state = _without_messages(state, *moved.history)
    goal = _goal(state) if moved.with_goal else state.goal
    return changed(
        state,
        goal=state.goal if goal is None else goal,
        goal_moved=goal is None or (state.goal_moved and not moved.with_goal),
        status=_status(state),
    )


def is_moved_out(state: RunLoopState) -> bool:
    """Whether a loop has nothing left, as all that was said in it is in other loops now."""
    return not state.unseen and all(each.moved_to is not None for each in state.iterations)


def _without_iterations(state: RunLoopState, moved: MessageMoved) -> RunLoopState:
    start, end = moved.iterations
    iterations = list(state.iterations)
    if not 0 <= start < end <= len(iterations):
        raise ValueError(f"run loop {state.id} has no iterations {start} to {end}")
    for index in range(start, end):
        old = iterations[index]
        if old.moved_to is not None:
            continue  # with another message, before
        iterations[index] = Iteration(
            timestamp=old.timestamp, forgotten=old.forgotten, moved_to=moved.to_run_loop_id
        )
    state = changed(state, closed_iterations=Growing(iterations[:-1]), iteration=iterations[-1])
    if end < len(iterations):
        return state
    return changed(  # what was going on went, too
        state,
        pending=(),
        awaiting=None,
        cut=False,
        thinking=False,
        overflowed=False,
        iterations_since_user=_since_user(iterations),
        failures=0,
        repetitions=0,
        last_outcomes=(),
    )


def _without_messages(state: RunLoopState, start: int, end: int) -> RunLoopState:
    if not 0 <= start <= end <= len(state.history):
        raise ValueError(f"run loop {state.id} has no messages {start} to {end}")
    history = Growing((*state.history[:start], *state.history[end:]))
    return changed(
        state,
        history=history,
        history_size=sum(message.size for message in history),
        recalled=tuple(
            each if each.index < start else replace(each, index=each.index - (end - start))
            for each in state.recalled
            if not start <= each.index < end
        ),
        measured_tokens=0,
        measured_size=0,
    )


def _since_user(iterations: Sequence[Iteration]) -> int:
    count = 0
    for iteration in reversed(iterations):
        if iteration.moved_to is None:
            count += 1
            if iteration.user_message:
                break
    return count


def _goal(state: RunLoopState) -> str | None:
    """The first words that are still here, if there are any."""
    said = [each.user_message for each in state.iterations if each.moved_to is None]
    said += [unseen.message.text for unseen in state.unseen]
    return next((words.strip() for words in said if words and words.strip()), None)


def _status(state: RunLoopState) -> Status:
    if not state.is_active:
        return state.status
    if state.awaiting is not None:
        return "waiting_for_human_input"
    at_rest = state.status == "idle" and state.is_answered and not state.unseen
    return "idle" if at_rest else "running"
