"""The agent: messages become run loops, are answered, and the loops rest, end, and go on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import (
    ConflictError,
    DataFolderInUseError,
    InvalidInputError,
    LLMConnectionError,
    NotFoundError,
)
from service.domain.history.events import RouteDecided, RunLoopFailed
from service.domain.run_loops import RunLoop
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    echo,
    running_agent,
    sent,
    types,
)

pytestmark = pytest.mark.anyio


@tool(effect="read_only")
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def adds_once(messages: Sequence[Message]) -> Answer:
    if messages[-1].role == "tool":
        return f"It is {messages[-1].text}."
    return [call("add", '{"a": 1, "b": 2}')]


async def test_a_message_opens_a_loop_is_answered_and_the_loop_rests(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        events = await sent(agent, "你好")
        assert types(events) == [
            "run_loop.started",
            "message.received",
            "route.decided",
            "iteration.started",
            "message.completed",
            "usage",
            "run_loop.idle",
        ]
        assert answer_of(events) == "You said: 你好"
        loop = await agent.run_loop(events[0].run_loop_id)
        assert loop.status == "idle"
        assert loop.iterations[0].user_message == "你好"


async def test_the_answer_streams_before_it_is_complete(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        events = await sent(agent, "hello")
        kinds = [event.type for event in events]
        assert kinds.index("message.delta") < kinds.index("message.completed")


async def test_a_tool_is_called_and_its_result_answered(tmp_path: Path) -> None:
    async with running_agent(tmp_path, adds_once, add) as agent:
        events = await sent(agent, "1+2?")
        assert [t for t in types(events) if t.startswith("tool.")] == [
            "tool.started",
            "tool.finished",
        ]
        assert answer_of(events) == "It is 3."
        loop = await agent.run_loop(events[0].run_loop_id)
        assert loop.iterations[0].tool_results[0].content == "3"
        assert loop.iterations[1].response == "It is 3."


async def test_tools_run_side_by_side_and_each_has_one_result(tmp_path: Path) -> None:
    met = anyio.Event()
    waiting = 0

    @tool(effect="read_only")
    async def meet() -> str:
        """Wait until another call has come."""
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            met.set()
        await met.wait()
        return "met"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool":
            return "done"
        return [call("meet", index=0), call("meet", index=1), call("nobody", index=2)]

    async with running_agent(tmp_path, respond, meet) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "go")
        loop = await agent.run_loop(events[0].run_loop_id)
        results = {result.id: result for result in loop.iterations[0].tool_results}
        assert results["c0"].content == results["c1"].content == "met"
        assert results["c2"].is_error
        assert "nobody" in results["c2"].content


async def test_a_follow_up_with_an_id_joins_and_the_model_sees_what_came_before(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(echo)
    async with running_agent(tmp_path, llm) as agent:
        first = await sent(agent, "my cat is called Momo")
        again = await sent(agent, "and now?", first[0].run_loop_id)
        assert again[0].run_loop_id == first[0].run_loop_id
        assert [m.text for m in llm.calls[-1][1:]] == [
            "my cat is called Momo",
            "You said: my cat is called Momo",
            "and now?",
        ]


async def test_a_message_to_a_finished_loop_opens_a_new_one_that_knows_it(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(echo)
    async with running_agent(tmp_path, llm) as agent:
        first = await sent(agent, "the password of the shed is 4711")
        loop_id = first[0].run_loop_id
        await agent.complete(loop_id)
        second = await sent(agent, "what was it again?", loop_id)
        loop = await agent.run_loop(second[0].run_loop_id)
        assert loop.id != loop_id
        assert loop.predecessor_id == loop_id
        assert "4711" in llm.calls[-1][1].notes


async def test_what_was_said_in_a_finished_loop_is_recalled_in_a_new_one(tmp_path: Path) -> None:
    llm = FunctionLLM(echo)
    async with running_agent(tmp_path, llm) as agent:
        first = await sent(agent, "我对花生过敏")
        await agent.complete(first[0].run_loop_id)
        await agent.memory.archivist.drain()
        second = await sent(agent, "我能吃花生酱吗？")
        assert "memory.recalled" in types(second)
        assert "我对花生过敏" in llm.calls[-1][1].notes


async def test_an_idle_loop_completes_when_no_follow_up_comes(tmp_path: Path) -> None:
    async with running_agent(tmp_path, linger_seconds=0.2) as agent:
        first = await sent(agent, "hello")
        events = agent.events(run_loop_id=first[0].run_loop_id, after=first[-1].seq)
        async with aclosing(events):
            with anyio.fail_after(20):
                assert (await anext(events)).type == "run_loop.completed"
        assert agent.memory.short_term.get_active() == ()


async def test_with_no_linger_a_loop_completes_at_once(tmp_path: Path) -> None:
    async with running_agent(tmp_path, linger_seconds=0) as agent:
        first = await sent(agent, "hello")
        async with aclosing(agent.events(run_loop_id=first[0].run_loop_id, after=0)) as events:
            with anyio.fail_after(20):
                async for event in events:
                    if event.type == "run_loop.completed":
                        break


@pytest.mark.slow
async def test_many_loops_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    answers: dict[str, str] = {}

    async with running_agent(tmp_path, auto_classify=False) as agent:

        async def ask(text: str) -> None:
            answers[text] = answer_of(await sent(agent, text))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(50):
                    group.start_soon(ask, f"number {number}")
    assert answers == {f"number {n}": f"You said: number {n}" for n in range(50)}


async def test_a_client_that_goes_away_cancels_nothing(tmp_path: Path) -> None:
    may_answer = anyio.Event()

    @tool(effect="read_only")
    async def wait() -> str:
        """Wait."""
        await may_answer.wait()
        return "waited"

    def respond(messages: Sequence[Message]) -> Answer:
        return "done" if messages[-1].role == "tool" else [call("wait")]

    async with running_agent(tmp_path, respond, wait) as agent:
        async with aclosing(agent.send("hello")) as events:
            async for event in events:
                if event.type == "tool.started":
                    break
        may_answer.set()
        async with aclosing(agent.events(after=0)) as rest:
            with anyio.fail_after(20):
                async for event in rest:
                    if event.type == "run_loop.idle":
                        break


async def test_a_message_during_a_run_is_seen_at_the_next_step(tmp_path: Path) -> None:
    started, may_go_on = anyio.Event(), anyio.Event()

    @tool(effect="read_only")
    async def wait() -> str:
        """Wait."""
        started.set()
        await may_go_on.wait()
        return "waited"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "user" and messages[-1].text == "hello":
            return [call("wait")]
        return f"seen: {messages[-1].text}"

    async with running_agent(tmp_path, respond, wait) as agent, anyio.create_task_group() as group:
        group.start_soon(sent, agent, "hello")
        await started.wait()
        loop_id = agent.memory.short_term.get_active()[0].id
        await agent.accept("one more thing", run_loop_id=loop_id)
        async with aclosing(agent.events(run_loop_id=loop_id, after=0)) as events:
            received = 0
            async for event in events:
                received += event.type == "message.received"
                if received == 2:
                    break
        may_go_on.set()
        with anyio.fail_after(20):
            events = agent.events(run_loop_id=loop_id, after=0)
            async with aclosing(events):
                async for event in events:
                    if event.type == "run_loop.idle":
                        break
        loop = await agent.run_loop(loop_id)
        assert loop.iterations[1].user_message == "one more thing"
        assert loop.iterations[1].response == "seen: one more thing"


async def test_cancelling_stops_the_work_first_and_then_says_so(tmp_path: Path) -> None:
    started, stopped = anyio.Event(), anyio.Event()

    @tool(effect="side_effects")
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()
        return "never"

    async with (
        running_agent(tmp_path, lambda m: [call("hang")], hang) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(sent, agent, "hello")
        with anyio.fail_after(20):
            await started.wait()
            loop_id = agent.memory.short_term.get_active()[0].id
            loop = await agent.cancel(loop_id)
        assert stopped.is_set()
        assert loop.status == "cancelled"
        assert [r.is_error for r in loop.iterations[0].tool_results] == [True]
        with pytest.raises(ConflictError, match="cancelled already"):
            await agent.cancel(loop_id)


async def test_an_unreachable_model_fails_the_loop_in_words(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        raise LLMConnectionError("nobody listens there", advice="Check the address.")

    async with running_agent(tmp_path, respond) as agent:
        events = await sent(agent, "hello")
        body = events[-1].body
        assert isinstance(body, RunLoopFailed)
        assert "Check the address" in body.problem.in_words()
        loop = await agent.run_loop(events[0].run_loop_id)
        assert loop.status == "failed"
        assert loop.iterations[0].user_message == "hello"


async def test_a_transient_failure_is_retried_and_told(tmp_path: Path) -> None:
    tries = 0

    def respond(messages: Sequence[Message]) -> Answer:
        nonlocal tries
        tries += 1
        if tries == 1:
            error = LLMConnectionError("gone for a moment")
            error.retry_after = 0.0
            raise error
        return "here again"

    async with running_agent(tmp_path, respond, max_retries=1) as agent:
        events = await sent(agent, "hello")
        assert "llm.retry" in types(events)
        assert answer_of(events) == "here again"


async def test_a_mistake_of_our_own_fails_one_loop_and_not_the_agent(tmp_path: Path) -> None:
    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "break":
            raise ZeroDivisionError("a bug")
        return "fine"

    async with running_agent(tmp_path, respond, auto_classify=False) as agent:
        broken = await sent(agent, "break")
        assert broken[-1].type == "run_loop.failed"
        assert answer_of(await sent(agent, "hello")) == "fine"


async def test_the_last_allowed_iteration_offers_no_tools_and_ends_honestly(
    tmp_path: Path,
) -> None:
    llm = FunctionLLM(lambda messages: [call("add", '{"a": 1, "b": 1}')])
    async with running_agent(tmp_path, llm, add, max_iterations=3) as agent:
        events = await sent(agent, "never ends")
        assert events[-1].type == "run_loop.idle"
        assert llm.offered == [("add",), ("add",), ()]
        assert "used all the steps" in answer_of(events)


@pytest.mark.parametrize("text", ["", "  \n\t ", "x" * 1_000_001])
async def test_an_empty_or_endless_message_is_refused_in_words(tmp_path: Path, text: str) -> None:
    async with running_agent(tmp_path) as agent:
        with pytest.raises(InvalidInputError) as error:
            await agent.accept(text)
        assert error.value.advice


async def test_an_unknown_loop_is_refused_before_the_message_is_accepted(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        with pytest.raises(NotFoundError):
            await agent.accept("hello", run_loop_id="nothing-here")
        assert await agent.memory.journal.inbox.undelivered() == []


async def test_every_route_has_a_reason_in_words(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        first = await sent(agent, "hello")
        second = await sent(agent, "more", first[0].run_loop_id)
        third = await sent(agent, "something else entirely")
        routes = [
            event.body.route
            for event in (*first, *second, *third)
            if isinstance(event.body, RouteDecided)
        ]
        assert [route.method for route in routes] == ["fallback", "explicit", "words"]
        assert all(route.reason for route in routes)


async def test_the_active_loops_are_observable(tmp_path: Path) -> None:
    seen: list[tuple[RunLoop, ...]] = []
    async with running_agent(tmp_path) as agent:
        subscription = agent.active_run_loops.subscribe(seen.append)
        await sent(agent, "hello")
        with anyio.fail_after(20):
            while not (seen and seen[-1] and seen[-1][0].status == "idle"):
                await anyio.sleep(0.01)
        subscription.dispose()


async def test_a_second_agent_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    async with running_agent(tmp_path):
        with pytest.raises(DataFolderInUseError):
            async with running_agent(tmp_path):
                pytest.fail("it was let in")
