"""A run loop that nears the end of the window is summarised, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.assemble import options_from_settings
from service.agent.compaction import closed_part
from service.agent.context import messages_tokens
from service.agent.hooks import Hooks
from service.agent.loop import Loop
from service.agent.rounds import anchors_in
from service.agent.tuned import COMPACT_AT_ONCE
from service.config import load_settings
from service.domain.anchors import AnchorRef
from service.domain.errors import LLMConnectionError, LLMContextError
from service.domain.events import (
    CompactionFinished,
    Event,
    MessageCompleted,
    RunLoopFailed,
    ToolFinished,
    Usage,
)
from service.domain.messages import Message, TextPart, ToolCall
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.domain.stream import StreamPart, TextDelta, TokenUsage
from service.tools.builtins.memory_expand import memory_expand_tool
from service.tools.decorator import tool
from tests.agent.conversations import HAN, WORDS, Conversation
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
from tests.memory.remembering import remembering

pytestmark = pytest.mark.anyio


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


async def test_what_is_summarised_is_in_long_term_memory_before_the_conversation_goes_on(
    tmp_path: Path,
) -> None:
    archived: list[str] = []

    async def slowly(run_loop: RunLoop) -> None:
        await anyio.sleep(0.1)

    async def done(run_loop: RunLoop) -> None:
        archived.append(run_loop.id)

    def respond(messages: Sequence[Message]) -> Answer:
        if any(anchors_in(message) for message in messages):
            assert archived
        return talks(messages)

    async with running_agent(tmp_path, respond, context_tokens=LIMIT) as agent:
        agent.memory.archivist.before, agent.memory.archivist.after = slowly, done
        loop_id, last = await conversation(agent, 5)
        assert finished(await all_events(agent, loop_id))
        assert last[-1].type == "run_loop.idle"


async def test_an_archive_that_never_comes_to_an_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("service.agent.executors.compact")
    monkeypatch.setattr(module, "_REMEMBERED_WITHIN_SECONDS", 0.05)

    async def never(run_loop: RunLoop) -> None:
        await anyio.sleep_forever()

    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        agent.memory.archivist.before = never
        with anyio.fail_after(30):
            loop_id, last = await conversation(agent, 5)
        assert finished(await all_events(agent, loop_id))
        assert last[-1].type == "run_loop.idle"


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


async def test_a_model_that_cannot_be_reached_is_not_asked_for_each_of_many_rounds(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, talks, context_tokens=100_000) as agent:
        loop_id, _ = await conversation(agent, 20)
    tried = 0

    def respond(messages: Sequence[Message]) -> Answer:
        nonlocal tried
        if is_request(messages):
            tried += 1
            return [LLMConnectionError("nobody listens there")]
        return talks(messages)

    # The same loop with a model of a smaller window: much is to be summarised at once.
    async with running_agent(tmp_path, respond, context_tokens=LIMIT) as agent:
        events = await sent(agent, "And now?", loop_id)
        assert finished(events)[0].messages > 30
        assert 1 <= tried <= COMPACT_AT_ONCE
        assert types(events).count("error") == 1
        assert events[-1].type == "run_loop.idle"


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


class Discreet(Hooks):
    """Lets no code word out of the house."""

    async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
        return [Message(role=m.role, content=(TextPart(text=_masked(m.text)),)) for m in messages]


def _masked(text: str) -> str:
    return text.replace("fox", "***")


async def test_the_owners_hooks_see_what_is_given_away_to_be_summarised(tmp_path: Path) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT, hooks=[Discreet()]) as agent:
        await conversation(agent, 5)
        asked = [messages for messages in llm.calls if is_request(messages)]
        assert asked
        assert not any("fox" in message.text for messages in asked for message in messages)


async def test_without_a_model_for_it_rounds_are_shortened_by_rules(tmp_path: Path) -> None:
    llm = FunctionLLM(talks)
    async with running_agent(tmp_path, llm, context_tokens=LIMIT, compaction="extract") as agent:
        loop_id, _ = await conversation(agent, 5)
        assert {e.method for e in finished(await all_events(agent, loop_id))} == {"extract"}
        assert not any(map(is_request, llm.calls))


@pytest.mark.parametrize(
    ("provider", "chosen", "meant"),
    [
        ("openai", "auto", "model"),
        ("embedded", "auto", "extract"),
        ("embedded", "model", "model"),
        ("openai", "off", "off"),
    ],
)
def test_auto_is_the_model_but_not_the_embedded_one(
    provider: str, chosen: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDO_LLM__PROVIDER", provider)
    monkeypatch.setenv("RONDO_AGENT__COMPACTION", chosen)
    assert options_from_settings(load_settings()).compaction == meant


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
