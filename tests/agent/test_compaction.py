"""What compaction makes of a conversation: shorter, well-formed, and traceable word for word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.anchors import AnchorRef
from service.domain.history.events import Event
from service.domain.history.fold import fold
from service.domain.history.state import RunLoopState
from service.loop.context.conversation_rounds import anchors_in, is_note, places, rounds
from service.loop.context.model_context import messages_tokens
from service.loop.context.summaries import extract
from tests.support.agent.conversations import HAN, WORDS, Conversation, long_conversations
from tests.support.histories import histories, received


def assert_well_formed(state: RunLoopState) -> None:
    waiting: list[str] = []
    for message in state.history:
        if message.role == "tool":
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id or "")
        else:
            assert not waiting
            waiting = [each.id for each in message.tool_calls]
    assert sorted(waiting) == sorted(each.call.id for each in state.pending)
    assert state.history_size == sum(message.size for message in state.history)


def newest_words(state: RunLoopState) -> list[str]:
    if not state.history:
        return []
    newest = rounds(state.history)[-1]
    return [m.text for m in state.history[slice(*newest)] if m.role == "user" and m.text]


@pytest.mark.slow
@settings(deadline=None)
@given(long_conversations(), st.integers(200, 20_000), st.integers(0, 3000))
def test_a_compacted_conversation_is_shorter_well_formed_and_keeps_the_newest_words(
    made: Conversation, limit: int, beside: int
) -> None:
    before = made.state
    count = made.compact(limit, beside=beside)
    after = made.state
    assert_well_formed(after)
    assert newest_words(after) == newest_words(before)
    assert after.is_answered == before.is_answered
    assert after.iterations == before.iterations
    if count:
        assert messages_tokens(after.history) < messages_tokens(before.history)
    else:
        assert after.history == before.history


@pytest.mark.slow
@given(histories(), st.integers(0, 300))
def test_any_history_stays_well_formed_when_it_is_compacted(
    history: list[Event], limit: int
) -> None:
    state = fold(history)
    assert state is not None
    made = Conversation(state, seq=1000)
    made.compact(limit)
    assert_well_formed(made.state)
    assert newest_words(made.state) == newest_words(state)


@pytest.mark.slow
@settings(deadline=None)
@given(long_conversations(), st.integers(200, 8000))
def test_compacting_again_comes_to_an_end(made: Conversation, limit: int) -> None:
    for _ in range(8):
        if not made.compact(limit):
            break
    else:
        raise AssertionError("it goes on and on")


@pytest.mark.slow
@settings(deadline=None)
@given(long_conversations())
def test_each_message_is_traced_to_its_iteration_also_after_compactions(made: Conversation) -> None:
    state = made.state
    indexes = places(state)
    assert indexes == sorted(indexes)
    for at, (message, index) in enumerate(zip(state.history, indexes, strict=True)):
        iteration = state.iterations[index]
        summarised = anchors_in(message)
        if summarised is not None:
            is_round = message.role == "assistant"
            assert index == summarised[1 if is_round else 0].iteration_index
        elif message.role == "assistant":
            assert iteration.response == (message.text or None)
            assert iteration.tool_calls == message.tool_calls
        elif message.role == "tool":
            assert message.text in [result.content for result in iteration.tool_results]
        elif at + 1 < len(indexes) and is_note(state.history[at + 1]):
            pass  # the words of a round that was summarised may be cut
        elif message.text:
            assert message.text in (iteration.user_message or "")


def test_a_tiny_conversation_is_left_as_it_is() -> None:
    made = Conversation().say("Hello").answer("Hi!").say("How are you?")
    assert made.compact(10) == 0
    assert [message.text for message in made.state.history] == ["Hello", "Hi!", "How are you?"]


def test_old_rounds_go_from_the_oldest_on_and_only_as_many_as_must() -> None:
    made = Conversation()
    for number in range(6):
        made.say(f"Question {number}").answer(f"Answer {number}. " + WORDS * 60)
    made.compact(5000)
    texts = [message.text for message in made.state.history]
    assert texts[0] == "Question 0"
    assert texts[-1].startswith("Answer 5. ")
    whole = [text for text in texts if text.endswith(WORDS)]
    assert 1 <= len(whole) < 6
    assert whole == [f"Answer {n}. " + WORDS * 60 for n in range(6 - len(whole), 6)]


def test_small_rounds_are_summarised_together() -> None:
    made = Conversation()
    for number in range(150):
        made.say(f"Question {number}?").answer(f"Answer {number}. " + WORDS * 5)
    before = messages_tokens(made.state.history)
    assert made.compact(before * 3 // 4) > 100
    assert messages_tokens(made.state.history) < before * 0.5
    assert "Question 0?" in made.state.history[0].text


def test_a_summary_names_where_its_words_are_remembered() -> None:
    made = Conversation()
    for number in range(3):
        made.say(f"Question {number}").step(WORDS * 40).answer(WORDS * 40)
    made.compact(2500)
    assert anchors_in(made.state.history[1]) == (AnchorRef("loop", 0, 0), AnchorRef("loop", 1, 0))
    assert "Question 0" in made.state.history[0].text


def test_of_a_long_round_the_first_steps_are_summarised_and_the_last_kept() -> None:
    made = Conversation().say("Find out everything.")
    for number in range(50):
        made.step(f"Fact {number}. " + WORDS * 10)
    made.compact(4000)
    history = made.state.history
    assert history[0].text == "Find out everything."
    assert anchors_in(history[0]) is not None
    assert history[-1].text.startswith("Fact 49. ")
    assert "Fact 0." not in "".join(message.text for message in history)
    assert messages_tokens(history) < 4000
    # And again, when more steps have been taken: one summary takes the place of the other.
    for number in range(50, 90):
        made.step(f"Fact {number}. " + WORDS * 10)
    made.compact(4000)
    first, last = anchors_in(made.state.history[0]) or (None, None)
    assert first == AnchorRef("loop", 0, 0)
    assert last is not None
    assert last.iteration_index > 60
    assert made.state.history[0].notes.count("[Summary") == 1


def test_when_summaries_take_too_much_the_oldest_are_merged_into_one() -> None:
    made = Conversation()
    most = 0
    for number in range(60):
        made.say(f"Question {number}: {WORDS * 20}").answer(WORDS * 60)
        if messages_tokens(made.state.history) > 6000:
            assert made.compact(6000) > 0
            most = max(most, len(made.state.history))
            assert messages_tokens(made.state.history) <= 6000
    first = anchors_in(made.state.history[1])
    assert first is not None
    assert first[0] == AnchorRef("loop", 0, 0)
    assert first[1].iteration_index > 5
    assert most < 40


def test_a_summary_is_not_summarised_again() -> None:
    made = Conversation().say("Question 0: " + WORDS * 40).answer(WORDS * 2000)
    made.add(received("And now?"))
    assert made.compact(20_000) == 2
    assert messages_tokens(made.state.history) > 500
    assert made.compact(100) == 0


def test_extraction_is_the_same_each_time_and_speaks_the_language_of_the_conversation() -> None:
    made = Conversation().say("查一下天气").step("晴，二十度。" + HAN * 30)
    made.answer("明天是晴天。" + HAN * 50)
    text = extract(made.state.history, max_tokens=120)
    assert text == extract(made.state.history, max_tokens=120)
    assert text.startswith("明天是晴天。")
    assert "look" in text
    assert "晴，二十度。" in text
