"""What the model is shown fits its window, and never parts a tool call from its result."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.anchors import Anchor
from service.domain.conversation.messages import Message, TextPart, ToolCall, ToolResult
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.history.events import (
    CompactionFinished,
    Event,
    IterationStarted,
    MemoryRecalled,
    MessageCompleted,
    Recollection,
    RunLoopStarted,
    ToolFinished,
)
from service.domain.history.fold import fold
from service.domain.history.growing import Growing
from service.domain.history.state import RunLoopState
from service.loop.context.model_context import (
    build_context,
    call_tokens,
    messages_tokens,
)
from service.loop.context.system_prompt import system_message
from service.tuning import CUT_LEAST_TOKENS
from tests.support.histories import BEGINNING, event_at, histories, received

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


@pytest.mark.slow
@given(histories(), st.integers(0, 400))
def test_whatever_is_left_out_every_result_keeps_its_call_and_the_newest_round_stays(
    history: list[Event], budget: int
) -> None:
    state = state_of(history)
    messages = build_context(state, opening=[SYSTEM], window_tokens=budget)
    assert messages[0] == SYSTEM
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [message.tool_call_id for message in messages if message.role == "tool"]
    assert len(calls) == len(results) + len(state.pending)
    if state.history:
        assert messages[-1].text == state.history[-1].text
        assert messages[1].role == "user"


@pytest.mark.slow
@given(histories())
def test_a_history_that_fits_is_shown_whole(history: list[Event]) -> None:
    state = state_of(history)
    messages = build_context(state, opening=[SYSTEM], window_tokens=10_000_000)
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
    messages = build_context(state, opening=[SYSTEM], window_tokens=200)
    assert [message.text for message in messages[1:]] == ["And now?"]
    assert "left out" in messages[1].notes


def talk(*messages: Message, **fields: Any) -> RunLoopState:
    size = sum(message.size for message in messages)
    state = state_of([event_at(1, RunLoopStarted(goal="x"))])
    return replace(state, history=Growing(messages), history_size=size, **fields)


def test_the_endpoints_count_goes_before_our_estimate_and_what_was_added_is_estimated() -> None:
    first = (Message.user("word " * 400), Message.assistant("Yes. " * 400))
    state = talk(*first, measured_tokens=700, measured_size=sum(m.size for m in first))
    asked = Message.user("And " * 100)
    tokens = partial(call_tokens, opening=[SYSTEM], window_tokens=5000)
    assert tokens(state) == 700
    assert tokens(state, landing=[asked]) == 700 + messages_tokens([asked])
    grown = replace(
        state,
        history=state.history.plus(asked),
        history_size=state.history_size + asked.size,
    )
    assert tokens(grown) == 700 + messages_tokens([asked])
    assert tokens(replace(grown, measured_tokens=0)) > 1100


def test_a_count_of_a_call_that_showed_only_a_part_says_nothing_of_the_whole() -> None:
    huge = Message.user("word " * 40_000)
    state = talk(huge, Message.assistant("Long."), measured_tokens=900, measured_size=huge.size)
    assert call_tokens(state, opening=[SYSTEM], window_tokens=1000) > 40_000
    messages = build_context(state, opening=[SYSTEM], window_tokens=1000)
    assert messages_tokens(messages) <= 1000


@pytest.mark.slow
@given(histories(), st.integers(0, 20_000), st.integers(100, 10_000))
def test_what_counts_as_fitting_is_shown_whole_and_what_does_not_is_told(
    history: list[Event], measured: int, window: int
) -> None:
    state = replace(state_of(history), measured_tokens=measured)
    state = replace(state, measured_size=state.history_size // 2)
    shown = build_context(state, opening=[SYSTEM], window_tokens=window)[1:]
    fits = call_tokens(state, opening=[SYSTEM], window_tokens=window) <= window
    if fits:
        assert shown == list(state.history)
    elif len(shown) < len(state.history):
        assert "left out" in shown[0].notes


@given(st.lists(st.sampled_from([10, 500, 9000]), min_size=1, max_size=8), st.integers(900, 4000))
def test_a_round_that_alone_is_too_long_is_cut_to_fit_and_says_so(
    sizes: list[int], window: int
) -> None:
    calls = tuple(ToolCall(id=f"c{n}", name="look") for n in range(len(sizes)))
    results = [
        Message.tool(ToolResult(id=each.id, content="开头 " + "x" * size + " end"))
        for each, size in zip(calls, sizes, strict=True)
    ]
    state = talk(Message.user("Look. " * 800), Message.assistant("", calls), *results)
    tools = (
        ToolDefinition(name="read_result", description="Read on.", parameters={"type": "object"}),
    )
    shown = build_context(state, opening=[SYSTEM], tools=tools, window_tokens=window)
    least = CUT_LEAST_TOKENS * (len(sizes) + 1)
    assert messages_tokens(shown) <= max(window, least + 30 * len(shown) + 200)
    for before, after in zip(state.history, shown[1:], strict=True):
        assert after.tool_calls == before.tool_calls
        assert after.tool_call_id == before.tool_call_id
        if after.text != before.text:
            assert after.text[:2] == before.text[:2]
            assert after.text[-3:] == before.text[-3:]
            assert "cut out here" in after.text
            assert ("read_result" in after.text) == (after.role == "tool")


def test_what_is_remembered_stands_beside_the_first_words_with_its_anchor() -> None:
    events = [
        event_at(1, RunLoopStarted(goal="x")),
        event_at(2, received("What is my cat called?")),
        event_at(3, MemoryRecalled(recollections=(recollection("My cat is called Momo."),))),
    ]
    state = state_of([*events, event_at(4, IterationStarted(index=0))])
    first = build_context(state, opening=[SYSTEM], window_tokens=2000)[1]
    assert first.text == "What is my cat called?"
    assert "old:0.1" in first.notes
    assert "the person said:\n> My cat is called Momo.\n" in first.notes


def heeding(content: str) -> MemoryRecalled:
    return MemoryRecalled(recollections=(recollection(content).model_copy(update={"heed": True}),))


def test_a_limit_stands_behind_the_last_of_the_words_that_landed_together() -> None:
    events = [
        event_at(1, RunLoopStarted(goal="x")),
        event_at(2, received("I am hungry.")),
        event_at(3, received("Can I have the shrimp salad?", "m2")),
        event_at(4, heeding("I am allergic to shellfish.")),
    ]
    state = state_of([*events, event_at(5, IterationStarted(index=0))])
    first, last = build_context(state, opening=[SYSTEM], window_tokens=2000)[1:]
    assert not first.notes
    assert last.content[0] == TextPart(text="Can I have the shrimp salad?")
    assert "“I am allergic to shellfish.”" in last.notes
    assert state.recollections == ()


def test_the_answer_of_a_small_model_begins_with_the_limits_that_matter() -> None:
    events = [
        event_at(1, RunLoopStarted(goal="x")),
        event_at(2, received("Can I have the shrimp salad?")),
        event_at(3, heeding("I am allergic to shellfish.")),
        event_at(4, IterationStarted(index=0)),
    ]
    asked = build_context(state_of(events), opening=[SYSTEM], window_tokens=2000, small=True)
    assert [each.role for each in asked] == ["system", "user", "assistant"]
    assert not asked[1].notes
    assert asked[2].text == "You told me: “I am allergic to shellfish.” So"
    events += [
        event_at(5, MessageCompleted(message=Message.assistant(f"{asked[2].text} no."))),
        event_at(6, received("And what is the capital of Peru?", "m2")),
        event_at(7, IterationStarted(index=1)),
    ]
    later = build_context(state_of(events), opening=[SYSTEM], window_tokens=2000, small=True)
    assert [each.role for each in later] == ["system", "user", "assistant", "user"]


def test_a_tools_result_stands_before_the_beginning_of_the_answer() -> None:
    call = ToolCall(id="c", name="calculator")
    events = [
        event_at(1, RunLoopStarted(goal="x")),
        event_at(2, received("Can I afford the shoes?")),
        event_at(3, heeding("I have twenty euros a week.")),
        event_at(4, IterationStarted(index=0)),
        event_at(5, MessageCompleted(message=Message.assistant("", (call,)))),
        event_at(6, ToolFinished(call_id="c", name="calculator", content="80")),
    ]
    asked = build_context(state_of(events), opening=[SYSTEM], window_tokens=2000, small=True)
    assert [each.role for each in asked[-2:]] == ["tool", "assistant"]
    assert asked[-1].text == "You told me: “I have twenty euros a week.” So"


def test_a_limit_goes_with_the_question_that_is_left_out_or_summarised() -> None:
    events = [
        event_at(1, RunLoopStarted(goal="x")),
        event_at(2, received("Can I have the shrimp salad?")),
        event_at(3, heeding("I am allergic to shellfish.")),
        event_at(4, IterationStarted(index=0)),
        event_at(5, MessageCompleted(message=Message.assistant("No. " * 900))),
        event_at(6, received("And what is the capital of Peru?", "m2")),
        event_at(7, IterationStarted(index=1)),
    ]
    shown = build_context(state_of(events), opening=[SYSTEM], window_tokens=400)
    assert not any("shellfish" in message.notes for message in shown)
    summary = (Message.user("Can I have the shrimp salad?"), Message.assistant("No."))
    done = CompactionFinished(
        messages=2, replacement=summary, method="extract", tokens_before=900, tokens_after=20
    )
    compacted = state_of([*events, event_at(8, done)])
    shown = build_context(compacted, opening=[SYSTEM], window_tokens=2000)
    assert not any("shellfish" in message.notes for message in shown)


def test_the_owners_instructions_are_in_the_system_message() -> None:
    assert "Call me Ada." in SYSTEM.text


def test_where_nothing_is_to_be_told_a_small_model_sees_the_words_alone() -> None:
    piece = recollection("rm -rf")
    given = piece.anchor.model_copy(update={"segment_type": "tool_result"})
    recalled = MemoryRecalled(recollections=(piece.model_copy(update={"anchor": given}),))
    events = [event_at(1, RunLoopStarted(goal="x")), event_at(2, received("Hello"))]
    events += [event_at(3, recalled), event_at(4, IterationStarted(index=0))]
    state = state_of(events)
    for small, part_count in ((True, 1), (False, 2)):
        shown = build_context(state, opening=[SYSTEM], window_tokens=2000, small=small)
        assert len(shown[-1].content) == part_count
