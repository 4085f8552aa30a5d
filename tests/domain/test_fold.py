"""A run loop's state is the fold of its events, and nothing else."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given

from service.domain.conversation.messages import Message, ToolCall
from service.domain.errors import Problem
from service.domain.history.events import (
    CompactionFinished,
    Event,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopCancelled,
    RunLoopFailed,
    RunLoopIdle,
    RunLoopResumed,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.history.fold import evolve, fold
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from tests.support.histories import event_at, histories, received

CALL = ToolCall(id="c1", name="add", arguments='{"a": 1}')


def folded(*bodies: object) -> RunLoopState:
    events = [event_at(seq, body) for seq, body in enumerate(bodies, start=1)]  # type: ignore[arg-type]
    state = fold(events)
    assert state is not None
    return state


def assert_valid(state: RunLoopState) -> None:
    """Each tool call has exactly one result, except those that are pending."""
    calls = [call.id for m in state.history for call in m.tool_calls]
    results = [m.tool_call_id for m in state.history if m.role == "tool"]
    pending = [waiting.call.id for waiting in state.pending]
    assert sorted(calls) == sorted([*map(str, results), *pending])
    if not state.is_active:
        assert not pending
        assert state.completed_at is not None
    for iteration in state.iterations[:-1]:
        assert {c.id for c in iteration.tool_calls} == {r.id for r in iteration.tool_results}


@given(histories())
def test_every_prefix_of_every_history_folds_to_a_valid_state(history: list[Event]) -> None:
    for length in range(1, len(history) + 1):
        state = fold(history[:length])
        assert state is not None
        assert_valid(state)


@given(histories(moves=False))
def test_no_word_that_was_received_is_missing_from_the_run_loop(history: list[Event]) -> None:
    state = fold(history)
    assert state is not None
    said = [e.body.message.text for e in history if isinstance(e.body, MessageReceived)]
    texts = [i.user_message for i in state.run_loop().iterations if i.user_message]
    # A follow-up is heard later than what came after it; all are heard, each once.
    for text in said:
        assert sum(words.count(text) for words in texts) >= said.count(text)
    answers = [e for e in history if isinstance(e.body, InputReceived)]
    if not answers:
        assert sorted("".join(said)) == sorted("".join("".join(texts).split("\n\n")))


@given(histories())
def test_applying_an_event_again_changes_nothing(history: list[Event]) -> None:
    state = fold(history)
    assert state is not None
    for event in history:
        assert evolve(state, event) == state


@given(histories())
def test_a_run_loop_survives_its_json(history: list[Event]) -> None:
    state = fold(history)
    assert state is not None
    loop = state.run_loop()
    assert RunLoop.model_validate_json(loop.model_dump_json()) == loop


def test_a_message_is_observed_when_the_next_iteration_starts() -> None:
    state = folded(RunLoopStarted(goal="hi"), received("hi"), IterationStarted(index=0))
    state = evolve(state, event_at(4, received("and bye")))
    assert state.iterations[0].user_message == "hi"
    assert [each.message.text for each in state.unseen] == ["and bye"]
    state = evolve(state, event_at(5, MessageCompleted(message=Message.assistant("Hello"))))
    state = evolve(state, event_at(6, IterationStarted(index=1)))
    assert state.iterations[0].response == "Hello"
    assert state.iterations[1].user_message == "and bye"
    assert [m.role for m in state.history] == ["user", "assistant", "user"]


def test_a_follow_up_wakes_an_idle_loop() -> None:
    state = folded(
        RunLoopStarted(goal="hi"),
        received("hi"),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant("Hello")),
        RunLoopIdle(),
        received("one more thing"),
    )
    assert state.status == "running"


def test_a_second_result_of_the_same_call_is_ignored() -> None:
    state = folded(
        RunLoopStarted(goal="hi"),
        received("hi"),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant("", (CALL,))),
        ToolStarted(call_id="c1", name="add", arguments="{}", idempotency_key="k"),
        ToolFinished(call_id="c1", name="add", content="3"),
        ToolFinished(call_id="c1", name="add", content="4"),
    )
    assert [r.content for r in state.iterations[0].tool_results] == ["3"]
    assert_valid(state)


def test_cancelling_gives_unfinished_calls_a_result_that_says_so() -> None:
    state = folded(
        RunLoopStarted(goal="hi"),
        received("hi"),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant("", (CALL,))),
        RunLoopCancelled(),
    )
    assert_valid(state)
    result = state.iterations[0].tool_results[0]
    assert result.is_error
    assert "cancelled" in result.content


def test_an_answer_to_another_request_changes_nothing() -> None:
    state = folded(
        RunLoopStarted(goal="hi"),
        received("hi"),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant("", (CALL,))),
        InputRequired(request_id="r", kind="approve", prompt="?", tool_calls=(CALL,)),
        InputReceived(request_id="old", approved=True),
    )
    assert state.status == "waiting_for_human_input"
    assert state.pending[0].approved is None


def test_words_that_chose_nothing_are_kept_where_no_call_had_asked() -> None:
    state = folded(
        RunLoopStarted(goal="g"),
        InputRequired(request_id="r", kind="select", prompt="?", options=("a", "b")),
        received("Which is cheaper?"),
        InputRequired(
            request_id="again", kind="select", prompt="?", options=("a", "b"), message_id="m"
        ),
    )
    assert [unseen.message.text for unseen in state.unseen] == ["Which is cheaper?"]


def test_anything_but_a_yes_is_a_no() -> None:
    state = folded(
        RunLoopStarted(goal="hi"),
        received("hi"),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant("", (CALL,))),
        InputRequired(request_id="r", kind="approve", prompt="?", tool_calls=(CALL,)),
        InputReceived(request_id="r", approved=None, text="hmm"),
    )
    assert state.pending[0].approved is False


def test_a_history_that_does_not_begin_with_its_start_is_refused() -> None:
    with pytest.raises(ValueError, match=r"begins with run_loop\.started"):
        fold([event_at(1, RunLoopIdle())])


def test_a_loop_that_failed_after_compacting_may_compact_again_when_it_is_resumed() -> None:
    compacted = CompactionFinished(messages=0, method="extract", tokens_before=9, tokens_after=9)
    state = folded(
        RunLoopStarted(goal="Hello"),
        received("Hello"),
        IterationStarted(index=0, message_ids=("m",)),
        compacted,
        RunLoopFailed(problem=Problem(kind="llm-context", title="too long")),
        RunLoopResumed(),
    )
    assert state.status == "running"
    assert not state.compacted


def test_what_a_call_was_measured_to_be_does_not_count_reasoning_that_is_never_sent_again() -> None:
    state = folded(
        RunLoopStarted(goal="Hello"),
        received("Hello"),
        IterationStarted(index=0, message_ids=("m",)),
        MessageCompleted(message=Message.assistant("Hi.")),
        Usage(model="m", input_tokens=50, output_tokens=9000),
    )
    assert state.measured_tokens == 50
    assert state.measured_size == Message.user("Hello").size


def _of(state: RunLoopState) -> list[tuple[str | None, bool]]:
    return [(each.tool_call_id, each.is_error) for each in state.history if each.role == "tool"]


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_results_stand_in_the_order_of_their_calls_whichever_came_first(
    order: tuple[str, ...],
) -> None:
    calls = tuple(ToolCall(id=each, name="look") for each in "abc")
    history = [
        RunLoopStarted(goal="Look"),
        received("m1", "Look"),
        IterationStarted(index=0, message_ids=("m1",)),
        MessageCompleted(message=Message.assistant("", calls)),
    ]
    results = [
        ToolFinished(call_id=each, name="look", content=each, is_error=each == "b")
        for each in order
    ]
    for count in range(len(results) + 1):
        state = folded(*history, *results[:count])
        assert_valid(state)
        there = sorted(order[:count])
        assert _of(state) == [(each, each == "b") for each in there]
        assert state.history_size == sum(message.size for message in state.history)
        assert [waiting.call.id for waiting in state.pending] == sorted(order[count:])
