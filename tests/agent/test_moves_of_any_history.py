"""Whatever has happened in a loop, a message can be moved out of it: both histories are whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.agent.moving.move_plan import is_free, plan
from service.agent.moving.moved_rounds import Round, WentBefore, round_of
from service.domain.errors import ConflictError, NotFoundError
from service.domain.history.events import Event, MessageReceived, RunLoopStarted
from service.domain.history.fold import fold
from service.domain.history.state import RunLoopState
from service.domain.run_loops import Iteration
from service.memory.forgetting.histories import history_of
from service.memory.journal.appends import Append
from tests.support.agent.moves import assert_well_formed
from tests.support.histories import BEGINNING, event_at, histories, received


def moved_somewhere(
    data: st.DataObject, events: Sequence[Event], target: Sequence[Event]
) -> tuple[Round, list[Event], list[Event]]:
    """A message of one history is moved to another one, or to a new one where that is empty."""
    ids = [e.body.message_id for e in events if isinstance(e.body, MessageReceived)]
    moved = _found(events, data.draw(st.sampled_from(ids)))
    assume(isinstance(moved, Round))  # it was summarised, or has gone before
    assert isinstance(moved, Round)
    state = fold(target)
    assume(state is None or is_free(state) or not moved.came_to_something)
    planned = plan(moved, state, read_at=0)
    source = [*events, *written(planned.source, after=events)]
    opened = planned.target.owner is not None
    there = written(planned.target, after=[] if opened else target)
    return moved, source, [*([] if opened else target), *there]


def _found(events: Sequence[Event], message_id: str) -> Round | WentBefore | None:
    try:
        return round_of(events, message_id)
    except ConflictError as refused:
        if "summarised" in refused.detail:
            return None
        raise  # nothing else keeps a message where it is


def written(append: Append, *, after: Sequence[Event]) -> list[Event]:
    last = max((event.seq or 0 for event in after), default=0)
    now = BEGINNING + timedelta(hours=1)
    moments = append.moments or [now] * len(append.bodies)
    return [
        Event(seq=last + 1 + n, at=at, owner="me", run_loop_id=append.run_loop_id, body=body)
        for n, (body, at) in enumerate(zip(append.bodies, moments, strict=True))
    ]


def elsewhere(event: Event) -> Event:
    """The same in another run loop, whose messages and questions have ids of their own."""
    renamed: dict[str, object] = {}
    for name in ("message_id", "request_id"):  # an answer without a message has its question's
        if isinstance(value := getattr(event.body, name, None), str):
            renamed[name] = f"other-{value}"
    if (message_ids := getattr(event.body, "message_ids", None)) is not None:
        renamed["message_ids"] = tuple(f"other-{each}" for each in message_ids)
    body = event.body.model_copy(update=renamed)
    return event.model_copy(update={"run_loop_id": "other", "body": body})


def calls_of(state: RunLoopState, indices: Iterable[int]) -> list[object]:
    iterations = [state.iterations[index] for index in indices]
    return [(each.tool_calls, each.response, each.reasoning) for each in iterations]


def all_that_was_said(*states: RunLoopState) -> str:
    said = [each.user_message for state in states for each in state.iterations]
    said += [unseen.message.text for state in states for unseen in state.unseen]
    # A loop that waits takes a message for the answer.
    said += [waiting.words for state in states for waiting in state.pending]
    results = [each.tool_results for state in states for each in state.iterations]
    said += [result.content for each in results for result in each]
    return "\n".join(filter(None, said))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_both_histories_stay_well_formed_and_nothing_is_lost(data: st.DataObject) -> None:
    events = data.draw(histories())
    other = data.draw(st.just([]) | histories())
    other = [elsewhere(each) for each in other]
    before = fold(events)
    assert before is not None
    moved, source_events, target_events = moved_somewhere(data, events, other)

    source, target = assert_well_formed(source_events), assert_well_formed(target_events)

    assert source.iteration_count == before.iteration_count
    for index, (old, new) in enumerate(zip(before.iterations, source.iterations, strict=True)):
        if index in moved.going:
            left = Iteration(timestamp=old.timestamp, forgotten=old.forgotten, moved_to=target.id)
            assert new == left
        else:
            assert new == old
    said = all_that_was_said(source, target)
    for words in all_that_was_said(before).split("\n"):
        assert words.strip() in said
    if moved.came_to_something:
        arrived = range(target.iteration_count - len(moved.going), target.iteration_count)
        assert calls_of(target, arrived) == calls_of(before, moved.going)
        results = [before.iterations[index].tool_results for index in moved.going]
        if not before.pending or not moved.is_last:
            there = [target.iterations[index].tool_results for index in arrived]
            assert [{r.id: r for r in each} for each in there] == [
                {r.id: r for r in each} for each in results
            ]
    for state in (source, target):
        assert not state.history or state.history[0].role == "user"
    # What was told of one loop alone is: usage, and a yes for as long as it lasts.
    assert (source.input_tokens, source.allowed) == (before.input_tokens, before.allowed)
    history_of(source_events)
    history_of(target_events)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_message_that_is_moved_back_is_as_it_was(data: st.DataObject) -> None:
    events = data.draw(histories())
    moved, source_events, target_events = moved_somewhere(data, events, [])
    [message_id, *_] = moved.message_ids
    assert isinstance(round_of(source_events, message_id), WentBefore)
    source = fold(source_events)
    assert source is not None
    back = round_of(target_events, message_id)
    assert isinstance(back, Round)
    assume(is_free(source) or not back.came_to_something)
    planned = plan(back, source, read_at=0)
    assert_well_formed([*target_events, *written(planned.source, after=target_events)])
    if planned.target.owner is None:
        again = [*source_events, *written(planned.target, after=source_events)]
        assert_well_formed(again)
        assert isinstance(round_of(again, message_id), Round)


def test_a_message_that_the_loop_never_had_is_told() -> None:
    events = [event_at(1, RunLoopStarted(goal="x")), event_at(2, received("x", "m1"))]
    with pytest.raises(NotFoundError, match="m2"):
        round_of(events, "m2")
