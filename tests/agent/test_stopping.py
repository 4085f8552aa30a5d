"""Cancelling, failing, and taking up again what was cancelled or has failed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import ConflictError, LLMStatusError
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    echo,
    running_agent,
    sending,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio


async def test_a_stop_that_disappears_is_at_once_and_keeps_what_was_read(tmp_path: Path) -> None:
    closed = anyio.Event()

    class Endless(FunctionLLM):
        async def stream(self, *args, **options):  # type: ignore[no-untyped-def]
            try:
                async for part in super().stream(*args, **options):
                    yield part
                await anyio.sleep_forever()
            finally:
                closed.set()

    async with running_agent(tmp_path, Endless(lambda _: [TextDelta("Once upon")])) as agent:
        async with sending(agent, "Tell me a story.") as events:
            await until(lambda: any(e.type == "message.delta" for e in events))
            with anyio.fail_after(2):
                loop = await agent.cancel(events[0].run_loop_id)
            assert closed.is_set(), "the model was still at work"
        assert loop.status == "cancelled"
        assert loop.iterations[0].response == "Once upon"
        assert types(events)[-2:] == ["message.completed", "run_loop.cancelled"]


async def test_cancelled_is_said_only_when_a_thread_with_side_effects_has_ended(
    tmp_path: Path,
) -> None:
    import threading

    begun, go_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    @tool(effect="side_effects")
    def write() -> str:
        """Write."""
        begun.set()
        go_on.wait(5)
        ended.append(True)
        return "written"

    async with (
        running_agent(tmp_path, lambda _: [call("write")], write) as agent,
        sending(agent, "Write.") as events,
    ):
        await until(begun.is_set)
        async with anyio.create_task_group() as group:
            group.start_soon(agent.cancel, events[0].run_loop_id)
            await anyio.sleep(0.05)
            assert "run_loop.cancelled" not in types(events)
            go_on.set()
        assert ended
    assert types(events)[-1] == "run_loop.cancelled"


async def test_a_message_to_a_cancelled_loop_goes_on_in_it_with_all_that_was_said(
    tmp_path: Path,
) -> None:
    @tool(effect="side_effects")
    async def work() -> str:
        """Work for ever."""
        await anyio.sleep_forever()
        return ""

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == "Work.":
            return [call("work")]
        return f"Went on with {len(messages)} messages."

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm, work) as agent:
        async with sending(agent, "Work.") as events:
            await until(lambda: "tool.started" in types(events))
            cancelled = await agent.cancel(events[0].run_loop_id)
        again = await sent(agent, "Do something else.", cancelled.id)
        assert {event.run_loop_id for event in again} == {cancelled.id}
        assert types(again)[:3] == ["run_loop.resumed", "message.received", "route.decided"]
        loop = await agent.run_loop(cancelled.id)
        assert loop.status == "idle"
    # system, the person, the call, its one result, the person
    assert [m.role for m in llm.calls[-1]] == ["system", "user", "assistant", "tool", "user"]
    assert "unknown" in llm.calls[-1][3].text


async def test_an_answer_that_was_stopped_goes_on_when_the_loop_is_resumed(tmp_path: Path) -> None:
    never = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].text:
            return [TextDelta("Once upon"), never]
        return " a time. The end."

    llm = FunctionLLM(respond)
    async with running_agent(tmp_path, llm) as agent:
        async with sending(agent, "Tell me a story.") as events:
            await until(lambda: any(e.type == "message.delta" for e in events))
            run_loop_id = events[0].run_loop_id
            await agent.cancel(run_loop_id)
        await agent.resume(run_loop_id)
        await until(lambda: agent.memory.short_term.state(run_loop_id).status == "idle")  # type: ignore[union-attr]
        loop = await agent.run_loop(run_loop_id)
    assert [each.response for each in loop.iterations] == ["Once upon", " a time. The end."]
    assert llm.calls[-1][-1].role == "user", "some endpoints refuse to go on after an answer"


async def test_an_answer_that_the_end_of_the_process_broke_off_is_asked_for_again(
    tmp_path: Path,
) -> None:
    never = anyio.Event()
    async with running_agent(tmp_path, lambda _: [TextDelta("Half of"), never]) as agent:
        async with aclosing(agent.send("Tell me.")) as events:
            async for event in events:
                if event.type == "message.delta":
                    break
        run_loop_id = event.run_loop_id
    async with running_agent(tmp_path, lambda _: "The whole answer.") as agent:
        await until(lambda: agent.memory.short_term.state(run_loop_id).status == "idle")  # type: ignore[union-attr]
        loop = await agent.run_loop(run_loop_id)
    assert [each.response for each in loop.iterations] == ["The whole answer."]


async def test_follow_ups_that_wait_when_a_loop_fails_get_an_answer_each_when_it_goes_on(
    tmp_path: Path,
) -> None:
    gate, works = anyio.Event(), False

    def respond(messages: Sequence[Message]) -> Answer:
        if not works:
            return [gate, LLMStatusError(401, "no key")]
        return f"To {messages[-1].text}."

    async with running_agent(tmp_path, respond) as agent:
        async with sending(agent, "One") as events:
            await until(lambda: "iteration.started" in types(events))
            run_loop_id = events[0].run_loop_id
            for words in ("two", "three"):
                await agent.accept(words, run_loop_id=run_loop_id, mode="followup")
            await until(lambda: types(events).count("message.received") == 3)
            gate.set()
        assert events[-1].type == "run_loop.failed"
        works = True
        await agent.resume(run_loop_id)
        await until(lambda: agent.memory.short_term.state(run_loop_id).status == "idle")  # type: ignore[union-attr]
        loop = await agent.run_loop(run_loop_id)
    assert [each.response for each in loop.iterations if each.response] == [
        "To One.",
        "To two.",
        "To three.",
    ]


async def test_a_failed_loop_is_tried_again_without_saying_it_again(tmp_path: Path) -> None:
    works = False

    def respond(messages: Sequence[Message]) -> Answer:
        if not works:
            raise LLMStatusError(401, "no key")
        return echo(messages)

    async with running_agent(tmp_path, respond) as agent:
        failed = await sent(agent, "Hello")
        assert failed[-1].type == "run_loop.failed"
        works = True
        run_loop_id = failed[0].run_loop_id
        resumed = await agent.resume(run_loop_id)
        assert resumed.status == "running"
        await until(lambda: agent.memory.short_term.state(run_loop_id).status == "idle")  # type: ignore[union-attr]
        loop = await agent.run_loop(run_loop_id)
        assert loop.iterations[-1].response == "You said: Hello"
        with pytest.raises(ConflictError):
            await agent.resume(run_loop_id)


async def test_a_completed_loop_is_not_taken_up_but_followed_by_another(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        first = await sent(agent, "Hello")
        run_loop_id = first[0].run_loop_id
        await agent.complete(run_loop_id)
        with pytest.raises(ConflictError):
            await agent.resume(run_loop_id)
        second = await sent(agent, "Hello again", run_loop_id)
        loop = await agent.run_loop(second[0].run_loop_id)
    assert loop.id != run_loop_id
    assert loop.predecessor_id == run_loop_id


async def test_a_resumed_loop_is_remembered_as_it_ends_the_second_time(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        first = await sent(agent, "My cat is called Momo.")
        run_loop_id = first[0].run_loop_id
        await agent.cancel(run_loop_id)
        await agent.memory.archivist.drain()
        await sent(agent, "And my dog Bello.", run_loop_id)
        await agent.complete(run_loop_id)
        await agent.memory.archivist.drain()
        results = await agent.memory.long_term.search("Bello", owner="me")
    said = [hit.content for hit in results.hits if hit.anchor.segment_type == "user_message"]
    assert said[0] == "And my dog Bello."


@pytest.mark.slow
async def test_a_resumed_loop_is_not_remembered_as_ended_after_a_crash(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        first = await sent(agent, "My cat is called Momo.")
        run_loop_id = first[0].run_loop_id
        await agent.cancel(run_loop_id)
        await agent.memory.archivist.drain()
        ended = await agent.run_loop(run_loop_id)
        place = agent.memory.long_term.pending.checkpoint()
        await sent(agent, "And my dog Bello.", run_loop_id)
        await agent.memory.archivist.drain()
        # As if the process had been killed before the archivist had read of it.
        await agent.memory.long_term.archive(ended)
        agent.memory.long_term.pending.take_in([], place)
    async with running_agent(tmp_path) as agent:
        with anyio.fail_after(10):
            while await agent.memory.long_term.lacking([run_loop_id]) == []:
                await anyio.sleep(0.01)


async def test_two_who_take_up_a_cancelled_loop_at_once_both_get_an_answer(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        first = await sent(agent, "Hello")
        run_loop_id = first[0].run_loop_id
        await agent.cancel(run_loop_id)
        answers: list[str] = []

        async def send(words: str) -> None:
            answers.append(answer_of(await sent(agent, words, run_loop_id)))

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(send, f"number {number}")
        loop = await agent.run_loop(run_loop_id)
        history = await agent.memory.journal.read(run_loop_id=run_loop_id)
    assert len(answers) == 5
    assert types(history).count("run_loop.resumed") == 1
    words = " ".join(iteration.user_message or "" for iteration in loop.iterations)
    assert all(f"number {number}" in words for number in range(5))
