"""What the router reads of a run loop: who said what last, and when."""

from __future__ import annotations

from datetime import timedelta

from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import FORGOTTEN
from service.domain.history.events import (
    EventBody,
    IterationStarted,
    MessageCompleted,
    RunLoopStarted,
)
from service.domain.history.fold import fold
from service.domain.history.human_input import InputRequired
from service.routing.candidate_loops import candidate_of
from service.routing.text.text_reading import MOST_TURNS, Turn
from tests.support.agent.conversations import Conversation
from tests.support.agent.routing_loops import LISBON, TABLE
from tests.support.histories import BEGINNING, event_at, received


def words(turns: object) -> list[str]:
    return [turn.text for turn in turns]  # type: ignore[attr-defined]


def test_the_turns_have_the_times_at_which_they_were_said() -> None:
    candidate = candidate_of(LISBON)
    question, answer = candidate.turns
    assert candidate.goal.text == question.text == "plan a weekend in Lisbon"
    assert (question.role, answer.role) == ("user", "assistant")
    assert answer.at - question.at == 30
    assert candidate.turn_count == 2


def test_steps_without_words_are_no_turns() -> None:
    talk = Conversation().say("Look it up.")
    for _ in range(3):
        talk.step("A tool's result that nobody said.")
    talk.answer("Here it is.")
    assert words(candidate_of(talk.state).turns)[0] == "Look it up."
    assert "result" not in " ".join(words(candidate_of(talk.state).turns))
    assert words(candidate_of(talk.state).turns)[-1] == "Here it is."


def test_compaction_takes_no_turns_away() -> None:
    talk = Conversation()
    for number in range(8):
        talk.say(f"Question {number} " + "and more words " * 40).answer(f"Answer {number}. " * 60)
    before = candidate_of(talk.state)
    assert talk.compact(2000)
    assert len(talk.state.history) < 16
    assert candidate_of(talk.state).turns == before.turns


def test_only_the_newest_turns_are_read_and_the_number_of_all_is_told() -> None:
    talk = Conversation()
    for number in range(40):
        talk.say(f"Question {number}").answer(f"Answer {number}")
    candidate = candidate_of(talk.state)
    assert len(candidate.turns) == MOST_TURNS
    assert words(candidate.turns)[-2:] == ["Question 39", "Answer 39"]
    assert candidate.turn_count == 80


def test_of_a_loop_that_works_for_long_without_a_word_only_so_much_is_looked_through() -> None:
    talk = Conversation().say("Begin.")
    talk.answer("I begin.")
    for _ in range(12):
        talk.add(IterationStarted(index=talk.state.iteration_count, message_ids=()))
        talk.add(MessageCompleted(message=Message.assistant("")))
    assert words(candidate_of(talk.state).turns) == ["Begin.", "I begin."]
    assert candidate_of(talk.state, most_steps=10).turns == ()


def test_messages_that_nobody_has_answered_yet_are_turns_with_their_own_times() -> None:
    talk = Conversation().say("First.").answer("Yes?")
    talk.add(received("Second.", "m2"), received("", "m3"), received("Third.", "m4"))
    said = talk.state.updated_at.timestamp()
    second, third = candidate_of(talk.state).turns[-2:]
    assert [second.text, third.text] == ["Second.", "Third."]
    assert (second.at, third.at) == (said - 2, said)


def test_a_question_that_waits_is_the_last_turn() -> None:
    candidate = candidate_of(TABLE)
    assert candidate.awaiting
    assert candidate.turns[-1].text == "For how many people?"
    assert candidate.turns[-1].role == "assistant"


def test_forgotten_words_are_no_turns() -> None:
    events: list[EventBody] = [
        RunLoopStarted(goal=FORGOTTEN),
        received(FORGOTTEN),
        IterationStarted(index=0, forgotten=True),
        MessageCompleted(message=Message.assistant(FORGOTTEN)),
        received("And now?", "m2"),
        received(FORGOTTEN, "m3"),
        InputRequired(request_id="r", kind="prompt", prompt=FORGOTTEN),
    ]
    state = fold(event_at(seq, body) for seq, body in enumerate(events, start=1))
    assert state is not None
    candidate = candidate_of(state)
    assert candidate.goal.text == ""
    assert candidate.turns == (
        Turn("And now?", "user", (BEGINNING + timedelta(seconds=5)).timestamp()),
    )
