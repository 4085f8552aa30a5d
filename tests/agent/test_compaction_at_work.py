"""A run loop that nears the end of the window is summarised, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent_options import Waits
from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message, ToolCall
from service.domain.history.events import (
    Event,
    MessageCompleted,
    RunLoopCancelled,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.history.own_part import closed_part
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.loop.context.conversation_rounds import anchors_in
from service.loop.context.model_context import messages_tokens
from service.loop.hooks.hooks import Hooks
from service.tools.builtins.memory_tools import memory_expand_tool
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sent,
)
from tests.support.agent.compacting import (
    LIMIT,
    all_events,
    conversation,
    finished,
    is_request,
    talks,
)
from tests.support.agent.conversations import HAN, WORDS, Conversation
from tests.support.histories import received
from tests.support.memory.remembering import remembering

pytestmark = pytest.mark.anyio


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


@pytest.mark.slow
async def test_compaction_that_loses_work_goes_on_only_once_memory_has_it_all(
    tmp_path: Path,
) -> None:
    archived: list[str] = []

    class Slowly(Hooks):
        async def before_archiving(self, run_loop: RunLoop) -> None:
            await anyio.sleep(0.1)

        async def after_archiving(self, run_loop: RunLoop) -> None:
            archived.append(run_loop.id)

    def respond(messages: Sequence[Message]) -> Answer:
        if any(anchors_in(message) for message in messages):
            assert archived
        return talks(messages)

    async with running_agent(tmp_path, respond, context_tokens=LIMIT, hooks=(Slowly(),)) as agent:
        loop_id, last = await conversation(agent, 5)
        assert finished(await all_events(agent, loop_id))
        assert last[-1].type == "run_loop.idle"


@pytest.mark.slow
async def test_an_archive_that_never_comes_to_an_end_is_not_waited_for(tmp_path: Path) -> None:
    class Never(Hooks):
        async def before_archiving(self, run_loop: RunLoop) -> None:
            await anyio.sleep_forever()

    waits, hooks = Waits(archive=0.05), (Never(),)
    async with running_agent(
        tmp_path, talks, context_tokens=LIMIT, waits=waits, hooks=hooks
    ) as agent:
        with anyio.fail_after(30):
            loop_id, last = await conversation(agent, 5)
        assert finished(await all_events(agent, loop_id))
        assert last[-1].type == "run_loop.idle"


async def test_what_was_archived_of_a_loop_at_work_is_whole_once_it_has_ended(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, talks, context_tokens=LIMIT) as agent:
        loop_id, _ = await conversation(agent, 5)
        archived = await agent.memory.long_term.run_loop(loop_id, owner="me")
        assert archived is not None
        assert archived.is_active
        assert (
            archived.iterations
            == (await agent.run_loop(loop_id)).iterations[: len(archived.iterations)]
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
    for each in two:
        made.add(ToolStarted(call_id=each.id, name="look", arguments="{}", idempotency_key=each.id))
    made.add(ToolFinished(call_id="x", name="look", content="half"))
    async with remembering(tmp_path, None, part(made.state)) as memory:
        first = await memory.expand(AnchorRef("loop", 0, 0), owner="me", after=9)
        assert first.focus.content == "Go"
        made.add(ToolFinished(call_id="y", name="look", content="other half")).answer("Done.")
        await memory.archive(made.state.run_loop())
        window = await memory.expand(AnchorRef("loop", 1, 0), owner="me", after=9)
        assert [each.content for each in (window.focus, *window.after)] == [
            "And?",
            "look {}",
            "half",
            "look {}",
            "other half",
            "Done.",
        ]
        assert (await memory.search("half", owner="me")).hits[0].anchor.run_loop_id == "loop"


async def test_of_an_open_loop_what_is_done_is_remembered_and_of_an_ended_one_all(
    tmp_path: Path,
) -> None:
    made = Conversation().say("Go").step("one").say("And?")
    called = Message.assistant("", (ToolCall(id="x", name="look"),))
    made.add(MessageCompleted(message=called))
    whole = made.state.run_loop()
    assert closed_part(made.state).iterations == whole.iterations[:-1]
    made.add(received("One more thing"), RunLoopCancelled())
    assert closed_part(made.state) == made.state.run_loop()
    assert made.state.run_loop().iterations[-1].user_message == "One more thing"


# --- what is too long by itself


@pytest.mark.slow
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


async def test_compaction_that_reclaims_nothing_would_not_fit_fifty_steps(tmp_path: Path) -> None:
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
