"""What the model is shown fits its window, and never parts a tool call from its result."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from service.agent.context import build_context, system_message
from service.domain.anchors import Anchor
from service.domain.events import (
    Event,
    IterationStarted,
    MemoryRecalled,
    Recollection,
    RunLoopStarted,
)
from service.domain.fold import fold
from service.domain.growing import Growing
from service.domain.messages import Message
from service.domain.state import RunLoopState
from tests.histories import BEGINNING, event_at, histories, received

SYSTEM = system_message(BEGINNING, instructions="Call me Ada.")


def state_of(history: list[Event]) -> RunLoopState:
    state = fold(history)
    assert state is not None
    return state


def recollection(content: str) -> Recollection:
    anchor = Anchor(
        run_loop_id="old",
        iteration_index=0,
        segment_index=1,
        segment_type="user_message",
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Recollection(anchor=anchor, content=content)


@given(histories(), st.integers(0, 400))
def test_whatever_is_left_out_every_result_keeps_its_call_and_the_newest_round_stays(
    history: list[Event], budget: int
) -> None:
    state = state_of(history)
    messages = build_context(state, system=SYSTEM, window_tokens=budget)
    assert messages[0] == SYSTEM
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [message.tool_call_id for message in messages if message.role == "tool"]
    assert len(calls) == len(results) + len(state.pending)
    if state.history:
        assert messages[-1].text == state.history[-1].text
        assert messages[1].role == "user"


@given(histories())
def test_a_history_that_fits_is_shown_whole(history: list[Event]) -> None:
    state = state_of(history)
    messages = build_context(state, system=SYSTEM, window_tokens=10_000_000)
    assert tuple(messages[1:]) == state.history


def test_what_is_left_out_is_told_to_the_model() -> None:
    long = "word " * 500
    events = [event_at(1, RunLoopStarted(goal="x"))]
    state = state_of(events)
    history = (
        Message.user(long),
        Message.assistant("First answer."),
        Message.user("And now?"),
    )
    size = sum(message.size for message in history)
    state = replace(state, history=Growing(history), history_size=size)
    messages = build_context(state, system=SYSTEM, window_tokens=200)
    assert [message.text for message in messages[1:]] == ["And now?"]
    assert "left out" in messages[1].notes


def test_what_is_remembered_stands_beside_the_first_words_with_its_anchor() -> None:
    events = [
        event_at(1, RunLoopStarted(goal="x")),
        event_at(2, received("What is my cat called?")),
        event_at(3, MemoryRecalled(recollections=(recollection("My cat is called Momo."),))),
    ]
    state = state_of([*events, event_at(4, IterationStarted(index=0))])
    first = build_context(state, system=SYSTEM, window_tokens=2000)[1]
    assert first.text == "What is my cat called?"
    assert "old:0.1" in first.notes
    assert "the person said: My cat is called Momo." in first.notes


def test_the_owners_instructions_are_in_the_system_message() -> None:
    assert "Call me Ada." in SYSTEM.text
