"""What is left of a run loop when a person moves a message out of it.

What went with the message leaves the conversation that the model sees; its iterations stay where
they are, without words, so that the indexes of the later ones, which anchors name, do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.domain.history.events import MessageMoved
from service.domain.history.growing import Growing
from service.domain.history.state import BeforeAnswer, RunLoopState, changed
from service.domain.run_loops import Iteration, Status


def moved_away(state: RunLoopState, moved: MessageMoved) -> RunLoopState:
    """The state of the loop that messages were moved out of.

    Raises:
        ValueError: the loop has no such iterations or messages.
    """
    if moved.reopens:
        return _reopened(state, moved)
    unseen = tuple(each for each in state.unseen if each.id not in moved.message_ids)
    state = changed(state, unseen=unseen, before_answer=_before_answer(state, moved))
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


def _reopened(state: RunLoopState, moved: MessageMoved) -> RunLoopState:
    """The state before an answer, with all that has nothing to do with it.

    Raises:
        ValueError: the newest thing that was said is no answer of a message's, or another one's.
    """
    before = state.before_answer
    if before is None or before.message_id not in moved.message_ids:
        raise ValueError(f"run loop {state.id} has heard {moved.message_ids} as no answer")
    then = before.state
    followed = state.iterations[then.iteration_count :]
    return changed(
        then,
        status="running",
        awaiting=None,
        taken_back=(*then.taken_back, *(_emptied(each, moved) for each in followed)),
        unseen=tuple(each for each in state.unseen if each.id not in moved.message_ids),
        updated_at=state.updated_at,
        last_seq=state.last_seq,
        goal=state.goal,
        goal_moved=state.goal_moved,
        compacting=state.compacting,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        cached_input_tokens=state.cached_input_tokens,
        cost=state.cost,
    )


def _before_answer(state: RunLoopState, moved: MessageMoved) -> BeforeAnswer | None:
    """Where the loop would go back to, without what is moved away now."""
    before = state.before_answer
    start, end = moved.iterations
    if before is None or start == end:
        return before
    if end > len(before.state.closed_iterations):
        return None
    return BeforeAnswer(before.message_id, moved_away(before.state, moved))


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
        iterations[index] = _emptied(old, moved)
    open_at = len(state.closed_iterations)
    if end <= open_at:
        return changed(state, closed_iterations=Growing(iterations[:open_at]))
    return changed(  # what was going on went, too
        state,
        closed_iterations=Growing(iterations[:-1]),
        iteration=iterations[-1],
        taken_back=(),
        pending=(),
        awaiting=None,
        cut=False,
        cut_off=False,
        continuations=0,
        thinking=False,
        overflowed=False,
        iterations_since_user=_since_user(iterations),
        failures=0,
        failing={},
        repetitions=0,
        last_outcomes=(),
    )


def _emptied(iteration: Iteration, moved: MessageMoved) -> Iteration:
    return Iteration(
        timestamp=iteration.timestamp,
        forgotten=iteration.forgotten,
        moved_to=moved.to_run_loop_id,
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
    said += [unseen.message.words for unseen in state.unseen]
    return next((words.strip() for words in said if words and words.strip()), None)


def _status(state: RunLoopState) -> Status:
    if not state.is_active:
        return state.status
    if state.awaiting is not None:
        return "waiting_for_human_input"
    at_rest = state.status == "idle" and state.is_answered and not state.unseen
    return "idle" if at_rest else "running"
