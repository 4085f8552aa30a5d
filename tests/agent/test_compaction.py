"""A conversation that nears the end of the window is summarised, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.agent.agent import Agent
from service.agent.compaction import Room, closed_part, difference, plan, plan_merge, summarised
from service.agent.context import messages_tokens
from service.agent.rounds import anchors_in, places, rounds
from service.agent.summaries import extract
from service.domain.anchors import AnchorRef
from service.domain.errors import LLMConnectionError, LLMContextError
from service.domain.events import (
    CompactionFinished,
    Event,
    EventBody,
    IterationStarted,
    MessageCompleted,
    RunLoopFailed,
    RunLoopStarted,
    ToolFinished,
    Usage,
)
from service.domain.fold import evolve, fold
from service.domain.messages import Message, ToolCall
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.domain.stream import StreamPart, TextDelta, TokenUsage
from service.tools.builtins.memory_expand import memory_expand_tool
from service.tools.decorator import tool
from tests.agent.support import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sent,
    types,
    until,
)
from tests.histories import event_at, histories, received
from tests.memory.remembering import remembering

WORDS = "The quick brown fox jumps over the lazy dog and runs through the field. "
HAN = "敏捷的棕色狐狸跳过了懒狗，然后跑过了田野。"


# --- what is replaced by what


class Conversation:
    """A run loop's history, made event by event."""

    def __init__(self) -> None:
        self._seq = 1
        state = fold([event_at(1, RunLoopStarted(goal="goal"))])
        assert state is not None
        self.state = state

    def add(self, *bodies: EventBody) -> Conversation:
        for body in bodies:
            self._seq += 1
            self.state = evolve(self.state, event_at(self._seq, body))
        return self

    def say(self, text: str) -> Conversation:
        message_id = f"m{self._seq}"
        index = self.state.iteration_count
        return self.add(
            received(text, message_id), IterationStarted(index=index, message_ids=(message_id,))
        )

    def answer(self, text: str) -> Conversation:
        if not self.state.thinking:
            self.add(IterationStarted(index=self.state.iteration_count, message_ids=()))
        return self.add(MessageCompleted(message=Message.assistant(text)))

    def step(self, result: str, *, calls: int = 1) -> Conversation:
        if not self.state.thinking:
            self.add(IterationStarted(index=self.state.iteration_count, message_ids=()))
        wanted = tuple(
            ToolCall(id=f"c{self._seq}.{n}", name="look", arguments='{"at": "it"}')
            for n in range(calls)
        )
        self.add(MessageCompleted(message=Message.assistant("Let me look.", wanted)))
        return self.add(
            *(ToolFinished(call_id=each.id, name="look", content=result) for each in wanted)
        )

    def compact(self, limit: int, *, beside: int = 0) -> int:
        before = self.state
        count, replacement = compacted(before, limit, beside=beside)
        finished = CompactionFinished(
            messages=count,
            replacement=replacement,
            method="extract",
            tokens_before=0,
            tokens_after=0,
        )
        self.add(finished)
        return count


def compacted(
    state: RunLoopState, limit: int, *, beside: int = 0
) -> tuple[int, tuple[Message, ...]]:
    """What compaction by extraction makes of a history."""
    room = Room(beside=beside, limit=limit, target=limit // 2)
    history = list(state.history)

    def texts(pieces: Sequence[Any]) -> dict[Any, str]:
        return {
            piece: extract(history[slice(*piece.span)], max_tokens=piece.max_tokens)
            for piece in pieces
        }

    history = summarised(history, texts(plan(state, room)))
    if (merged := plan_merge(history, room)) is not None:
        history = summarised(history, texts([merged]))
    return difference(state.history, history)


@st.composite
def long_conversations(draw: st.DrawFn) -> Conversation:
    """Rounds and steps of very different lengths, compacted now and then."""
    made = Conversation()
    length = st.integers(1, 60)
    for number in range(draw(st.integers(1, 12))):
        text = draw(st.sampled_from([WORDS, HAN]))
        made.say(f"{number}: {text * draw(length)}")
        for _ in range(draw(st.integers(0, 6))):
            made.step(text * draw(length), calls=draw(st.integers(1, 3)))
        if draw(st.booleans()):
            made.answer(text * draw(length))
        if draw(st.booleans()):
            made.compact(draw(st.integers(200, 8000)))
    return made


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


@given(histories(), st.integers(0, 300))
def test_any_history_stays_well_formed_when_it_is_compacted(
    history: list[Event], limit: int
) -> None:
    state = fold(history)
    assert state is not None
    made = Conversation()
    made.state, made._seq = state, 1000
    made.compact(limit)
    assert_well_formed(made.state)
    assert made.compact(limit) == 0 or made.state.history


@settings(deadline=None)
@given(long_conversations())
def test_each_message_is_traced_to_its_iteration_also_after_compactions(made: Conversation) -> None:
    state = made.state
    found = places(state)
    assert found == sorted(found)
    for message, index in zip(state.history, found, strict=True):
        iteration = state.iterations[index]
        if anchors_in(message) is None and message.role == "assistant":
            assert iteration.response == (message.text or None)
            assert iteration.tool_calls == message.tool_calls
        elif message.role == "tool":
            assert message.text in [result.content for result in iteration.tool_results]


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


def test_extraction_is_the_same_each_time_and_speaks_the_language_of_the_conversation() -> None:
    made = Conversation().say("查一下天气").step("晴，二十度。" + HAN * 30)
    made.answer("明天是晴天。" + HAN * 50)
    text = extract(made.state.history, max_tokens=120)
    assert text == extract(made.state.history, max_tokens=120)
    assert text.startswith("明天是晴天。")
    assert "look" in text
    assert "晴，二十度。" in text


# --- in a run loop


def is_request(messages: Sequence[Message]) -> bool:
    """Whether the model is asked for a summary."""
    return messages[0].text.startswith("You condense")


def talks(messages: Sequence[Message]) -> Answer:
    """Answers at length, and summarises in a few words."""
    if is_request(messages):
        return "They spoke of foxes."
    return f"Answer to {messages[-1].text[:20]}. " + WORDS * 40


async def conversation(agent: Agent, questions: int) -> tuple[str, list[Event]]:
    """A conversation of so many rounds; the loop's id, and the events of the last round."""
    events = await sent(agent, "Question 0: " + WORDS * 20)
    for number in range(1, questions):
        events = await sent(agent, f"Question {number}: " + WORDS * 20, events[0].run_loop_id)
    return events[0].run_loop_id, events


def finished(events: Sequence[Event]) -> list[CompactionFinished]:
    return [each.body for each in events if isinstance(each.body, CompactionFinished)]


async def all_events(agent: Agent, run_loop_id: str) -> list[Event]:
    return await agent.memory.journal.read(run_loop_id=run_loop_id)


LIMIT = 3000


@pytest.mark.anyio
async def test_old_rounds_are_summarised_by_the_model_before_the_call_that_would_be_too_long(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT) as agent:
        loop_id, _ = await conversation(agent, 5)
        events = await all_events(agent, loop_id)
        done = finished(events)
        assert done
        assert all(each.method == "model" for each in done)
        assert all(each.tokens_after < LIMIT < each.tokens_before for each in done)
        kinds = [each.type for each in events]
        at = kinds.index("compaction.started")
        end = kinds.index("compaction.finished")
        assert set(kinds[at + 1 : end]) == {"usage"}
        assert kinds[end + 1] == "iteration.started"
        used = [each.body for each in events if isinstance(each.body, Usage)]
        assert "compaction" in {each.purpose for each in used}
        shown = llm.calls[-1]
        assert "They spoke of foxes." in shown[2].notes
        assert shown[-1].text == "Question 4: " + WORDS * 20
        for messages in llm.calls:
            assert messages_tokens(messages) < LIMIT
        loop = await agent.run_loop(loop_id)
        assert [each.user_message for each in loop.iterations] == [
            f"Question {number}: " + WORDS * 20 for number in range(5)
        ]


@pytest.mark.anyio
async def test_the_words_of_a_summary_do_not_stream_as_an_answer(tmp_path: Path) -> None:
    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        loop_id, _ = await conversation(agent, 3)
        last: list[Event] = []
        for number in range(3, 6):
            last = await sent(agent, f"Question {number}: " + WORDS * 20, loop_id)
            streamed = [e.body.text for e in last if e.body.type == "message.delta"]
            assert "They spoke of foxes." not in streamed
        loop = await agent.run_loop(loop_id)
        assert all("They spoke" not in (each.response or "") for each in loop.iterations)


@pytest.mark.anyio
async def test_the_model_can_expand_what_was_summarised(tmp_path: Path) -> None:
    secret = "The code of the shed is 4711. "

    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            return "They spoke of a code."
        if messages[-1].role == "tool":
            return "Found."
        if messages[-1].text == "What was the code?":
            note = next(each for each in messages if anchors_in(each))
            anchor = (anchors_in(note) or ("", ""))[0]
            return [call("memory_expand", f'{{"anchor": "{anchor}"}}')]
        return "Noted. " + WORDS * 40

    llm = FunctionLLM(respond)
    folder = tmp_path / "home"
    async with running_agent(folder, llm, context_tokens=LIMIT) as agent:
        agent.tools.register(memory_expand_tool(agent.memory.long_term))
        first = await sent(agent, secret + WORDS * 20)
        loop_id = first[0].run_loop_id
        for number in range(4):
            await sent(agent, f"{number}: " + WORDS * 20, loop_id)
        events = await sent(agent, "What was the code?", loop_id)
        results = [e.body for e in events if isinstance(e.body, ToolFinished)]
        assert [each.is_error for each in results] == [False]
        assert secret.strip() in results[0].content


@pytest.mark.anyio
async def test_what_was_archived_of_a_loop_at_work_is_whole_once_it_has_ended(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        loop_id, _ = await conversation(agent, 5)
        known = await agent.memory.long_term.run_loop(loop_id, owner="me")
        assert known is not None
        assert known.is_active
        assert (
            known.iterations == (await agent.run_loop(loop_id)).iterations[: len(known.iterations)]
        )
        await agent.complete(loop_id)
        await agent.memory.archivist.drain()
        whole = await agent.memory.long_term.run_loop(loop_id, owner="me")
        assert whole == await agent.run_loop(loop_id)


@pytest.mark.anyio
@pytest.mark.parametrize("part", [closed_part, RunLoopState.run_loop])
async def test_a_step_whose_results_are_still_coming_is_put_right_when_they_have_come(
    tmp_path: Path, part: Callable[[RunLoopState], RunLoop]
) -> None:
    made = Conversation().say("Go").step("one").say("And?")
    two = (ToolCall(id="x", name="look"), ToolCall(id="y", name="look"))
    made.add(MessageCompleted(message=Message.assistant("", two)))
    made.add(ToolFinished(call_id="x", name="look", content="half"))
    async with remembering(tmp_path, None, part(made.state)) as memory:
        first = await memory.expand(AnchorRef("loop", 0, 0), owner="me", after=9)
        assert first.focus.content == "Go"
        made.add(ToolFinished(call_id="y", name="look", content="other half")).answer("Done.")
        await memory.archive(made.state.run_loop())
        found = await memory.expand(AnchorRef("loop", 1, 0), owner="me", after=9)
        assert [each.content for each in (found.focus, *found.after)] == [
            "And?",
            "look {}",
            "half",
            "look {}",
            "other half",
            "Done.",
        ]
        assert (await memory.search("half", owner="me")).hits[0].anchor.run_loop_id == "loop"


@pytest.mark.anyio
async def test_where_the_model_fails_the_house_summarises_and_says_so(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            return [LLMConnectionError("nobody listens there")]
        return talks(messages)

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT) as agent:
        loop_id, last = await conversation(agent, 5)
        events = await all_events(agent, loop_id)
        assert {each.method for each in finished(events)} == {"extract"}
        assert all(each.tokens_after < LIMIT for each in finished(events))
        told = [e.body.problem for e in events if e.body.type == "error"]
        assert told
        assert "nobody listens there" in told[0].in_words()
        assert last[-1].type == "run_loop.idle"
        assert "Answer to Question 0" in llm.calls[-1][2].notes


@pytest.mark.anyio
async def test_a_failure_of_the_model_that_passes_is_retried(tmp_path: Path) -> None:
    failed = False

    def respond(messages: Sequence[Message]) -> Answer:
        nonlocal failed
        if is_request(messages) and not failed:
            failed = True
            error = LLMConnectionError("gone for a moment")
            error.retry_after = 0.0
            return [error]
        return talks(messages)

    async with running_agent(tmp_path, respond, context_tokens=LIMIT, max_retries=2) as agent:
        loop_id, _ = await conversation(agent, 5)
        events = await all_events(agent, loop_id)
        assert "llm.retry" in types(events)
        assert {each.method for each in finished(events)} == {"model"}


@pytest.mark.anyio
async def test_without_a_model_for_it_rounds_are_shortened_by_rules(tmp_path: Path) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT, compaction="extract") as agent:
        loop_id, _ = await conversation(agent, 5)
        assert {e.method for e in finished(await all_events(agent, loop_id))} == {"extract"}
        assert not any(map(is_request, llm.calls))


class SmallWindow(FunctionLLM):
    """Refuses what is longer than its window, which is not the one that it reports."""

    def __init__(self, window: int) -> None:
        super().__init__(self._respond)
        self.window = window
        self.refused = 0

    def _respond(self, messages: Sequence[Message]) -> Answer:
        if messages_tokens(messages) > self.window:
            self.refused += 1
            return [LLMContextError("the maximum context length is exceeded")]
        return talks(messages)


@pytest.mark.anyio
async def test_a_call_that_the_endpoint_refuses_as_too_long_is_compacted_and_made_again(
    tmp_path: Path,
) -> None:
    llm = SmallWindow(2000)
    async with running_agent(tmp_path, llm) as agent:
        loop_id, last = await conversation(agent, 8)
        assert llm.refused
        events = await all_events(agent, loop_id)
        assert finished(events)
        assert "run_loop.failed" not in types(events)
        assert last[-1].type == "run_loop.idle"


@pytest.mark.anyio
async def test_what_is_too_long_even_so_fails_in_words_and_does_not_go_round(
    tmp_path: Path,
) -> None:
    llm = SmallWindow(10)
    async with running_agent(tmp_path, llm) as agent:
        events = await sent(agent, "Hello")
        failure = events[-1].body
        assert isinstance(failure, RunLoopFailed)
        assert "llm.context_tokens" in failure.problem.in_words()
        assert llm.refused == 2


@pytest.mark.anyio
async def test_with_compaction_off_what_does_not_fit_is_left_out_with_a_notice(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(
        tmp_path, llm, compaction="off", context_tokens=500, answer_tokens=4500
    ) as agent:
        loop_id, _ = await conversation(agent, 8)
        assert not finished(await all_events(agent, loop_id))
        assert "left out" in llm.calls[-1][1].notes
        assert llm.calls[-1][-1].text.startswith("Question 7")
    refusing = SmallWindow(10)
    async with running_agent(tmp_path, refusing, compaction="off") as agent:
        events = await sent(agent, "Hello")
        failure = events[-1].body
        assert isinstance(failure, RunLoopFailed)
        assert "agent.compaction" in failure.problem.in_words()
        assert refusing.refused == 1


@pytest.mark.anyio
async def test_what_the_endpoint_counts_goes_before_our_estimate(tmp_path: Path) -> None:
    def counting(tokens: int) -> FunctionLLM:
        def respond(messages: Sequence[Message]) -> Answer:
            if is_request(messages):
                return "Short."
            parts: list[StreamPart] = [TextDelta("Yes. " + WORDS * 10)]
            return [*parts, TokenUsage("m", input_tokens=tokens, output_tokens=10)]

        return FunctionLLM(respond)

    dear, cheap = tmp_path / "dear", tmp_path / "cheap"
    async with running_agent(dear, counting(5000), context_tokens=4500) as agent:
        loop_id, _ = await conversation(agent, 3)
        assert finished(await all_events(agent, loop_id))
    async with running_agent(cheap, counting(50), context_tokens=900) as agent:
        loop_id, _ = await conversation(agent, 3)
        assert not finished(await all_events(agent, loop_id))


# --- what comes in between


class Summarising(FunctionLLM):
    """Waits while it summarises, until it is let go on."""

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.began = anyio.Event()
        self.may_go_on = anyio.Event()

    def _respond(self, messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            self.began.set()
            return [self.may_go_on, TextDelta("They spoke of foxes.")]
        return talks(messages)


async def summarising(agent: Agent, llm: Summarising, group: Any) -> str:
    """Bring a loop to where it is being summarised."""
    first = await sent(agent, "Question 0: " + WORDS * 20)
    loop_id = first[0].run_loop_id

    async def go_on() -> None:
        for number in range(1, 9):
            await sent(agent, f"Question {number}: " + WORDS * 20, loop_id)

    group.start_soon(go_on)
    with anyio.fail_after(20):
        await llm.began.wait()
    return loop_id


@pytest.mark.anyio
async def test_a_message_that_comes_while_old_rounds_are_summarised_is_heard(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        await agent.accept("And a word in between.", run_loop_id=loop_id)
        state = agent.memory.short_term.state
        await until(lambda: len((state(loop_id) or _never()).unseen) == 2)
        llm.may_go_on.set()
        await until(lambda: not (state(loop_id) or _never()).unseen)
        heard = [each.user_message or "" for each in (await agent.run_loop(loop_id)).iterations]
        assert any("And a word in between." in each for each in heard)
        group.cancel_scope.cancel()


def _never() -> RunLoopState:
    raise AssertionError("the loop is not active")


@pytest.mark.anyio
async def test_cancelling_while_old_rounds_are_summarised_takes_effect_at_once(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        with anyio.fail_after(10):
            loop = await agent.cancel(loop_id)
        group.cancel_scope.cancel()
        assert loop.status == "cancelled"
        assert not finished(await all_events(agent, loop_id))
        asked = [each.user_message for each in loop.iterations]
        assert asked == [f"Question {number}: " + WORDS * 20 for number in range(len(asked))]


@pytest.mark.anyio
async def test_a_restart_in_the_middle_of_summarising_begins_anew_and_loses_nothing(
    tmp_path: Path,
) -> None:
    llm = Summarising()
    async with (
        running_agent(tmp_path, llm, context_tokens=LIMIT) as agent,
        anyio.create_task_group() as group,
    ):
        loop_id = await summarising(agent, llm, group)
        group.cancel_scope.cancel()
    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        state = agent.memory.short_term.state
        await until(lambda: (state(loop_id) or _never()).status == "idle")
        events = await all_events(agent, loop_id)
        assert types(events).count("compaction.started") == 2
        assert len(finished(events)) == 1
        last = (await agent.run_loop(loop_id)).iterations[-1]
        assert last.response


@pytest.mark.anyio
async def test_two_loops_are_summarised_side_by_side(tmp_path: Path) -> None:
    async with running_agent(tmp_path, talks, context_tokens=LIMIT, auto_classify=False) as agent:
        ids: list[str] = []

        async def talk() -> None:
            loop_id, last = await conversation(agent, 6)
            assert last[-1].type == "run_loop.idle"
            ids.append(loop_id)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(talk)
                group.start_soon(talk)
        for loop_id in ids:
            assert finished(await all_events(agent, loop_id))


# --- what is too long by itself


@pytest.mark.anyio
async def test_a_million_bytes_of_chinese_are_cut_for_the_model_and_kept_for_the_person(
    tmp_path: Path,
) -> None:
    huge = "请总结：" + HAN * 16_000 + "结尾在这里。"
    assert len(huge.encode()) > 1_000_000
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm) as agent:
        with anyio.fail_after(60):
            events = await sent(agent, huge)
        assert events[-1].type == "run_loop.idle"
        shown = llm.calls[-1]
        assert shown[-1].text.startswith("请总结：")
        assert shown[-1].text.endswith("结尾在这里。")
        assert "cut out here" in shown[-1].text
        assert messages_tokens(shown) < llm.context_tokens
        with anyio.fail_after(60):
            again = await sent(agent, "还有呢？", events[0].run_loop_id)
        assert again[-1].type == "run_loop.idle"
        assert finished(again)[0].messages == 2
        assert shown != llm.calls[-1]
        assert messages_tokens(llm.calls[-1]) < 2000
        loop = await agent.run_loop(events[0].run_loop_id)
        assert loop.iterations[0].user_message == huge


@pytest.mark.anyio
async def test_fifty_steps_of_one_request_stay_within_the_window(tmp_path: Path) -> None:
    seen = 0

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        nonlocal seen
        seen += 1
        return f"Fact {seen}. " + WORDS * 15

    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            return "They found facts."
        calls = [each.id for message in messages for each in message.tool_calls]
        results = [message.tool_call_id for message in messages if message.role == "tool"]
        assert calls == results
        assert messages[1].text == "Find out everything."
        return "Done." if seen == 50 else [call("look", index=seen)]

    llm = FunctionLLM(respond)
    options: dict[str, Any] = {"max_iterations": 60, "context_tokens": LIMIT}
    async with running_agent(tmp_path, llm, look, **options) as agent:
        with anyio.fail_after(60):
            events = await sent(agent, "Find out everything.")
        assert answer_of(events) == "Done."
        assert 2 <= len(finished(events)) <= 12
        assert all(messages_tokens(messages) < LIMIT for messages in llm.calls)
        assert "They found facts." in llm.calls[-1][1].notes
        assert "Fact 50." in llm.calls[-1][-1].text
        assert len((await agent.run_loop(events[0].run_loop_id)).iterations) == 51


@pytest.mark.anyio
async def test_a_huge_result_of_a_tool_is_cut_for_the_model(tmp_path: Path) -> None:
    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "开头。" + HAN * 800 + "结尾。"

    def respond(messages: Sequence[Message]) -> Answer:
        if is_request(messages):
            return "They looked."
        if messages[-1].role == "tool":
            return "Seen."
        return [call("look", index=0), call("look", index=1), call("look", index=2)]

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm, look) as agent:
        events = await sent(agent, "Look.")
        assert answer_of(events) == "Seen."
        assert messages_tokens(llm.calls[-1]) < llm.context_tokens
        assert all(message.text.startswith("开头。") for message in llm.calls[-1][-3:])
