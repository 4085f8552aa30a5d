"""What goes wrong around a run loop ends neither the loop nor the agent, and loses nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.agent_options import Waits
from service.domain.conversation.messages import ImageUrlPart, Message, ToolCall
from service.domain.errors import InvalidInputError, StorageError
from service.domain.history.events import EventBody
from service.domain.routes import Route
from service.loop.hooks.hooks import Hooks
from service.memory.journal.change_feed import Commit
from service.memory.journal.inbox import Delivery, InboxEntry
from service.routing.router import Router
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    echo,
    running_agent,
    sent,
)

pytestmark = pytest.mark.anyio


def refuse_once(agent: Agent, refuses: Callable[[EventBody], bool]) -> list[EventBody]:
    """Let the disk be full the first time that such an event is to be journaled."""
    append = agent.memory.journal.append
    refused: list[EventBody] = []

    async def failing(run_loop_id: str, *bodies: EventBody, **options: Any) -> Commit:
        if not refused and any(refuses(body) for body in bodies):
            refused.extend(bodies)
            raise StorageError("database or disk is full", advice="Free some space.")
        return await append(run_loop_id, *bodies, **options)

    agent.memory.journal.append = failing  # type: ignore[method-assign]
    return refused


async def until(agent: Agent, run_loop_id: str, type_: str) -> None:
    with anyio.fail_after(30):
        async with aclosing(agent.events(run_loop_id=run_loop_id, after=0)) as events:
            async for event in events:
                if event.type == type_:
                    return


@tool(effect="read_only")
async def look() -> str:
    """Look."""
    return "seen"


def looks(messages: Sequence[Message]) -> Answer:
    return "Done." if messages[-1].role == "tool" else [call("look")]


async def test_a_loop_that_meets_a_full_disk_goes_on_once_there_is_room(tmp_path: Path) -> None:
    waits = Waits(storage_retry=0.05)
    async with running_agent(tmp_path, looks, look, waits=waits) as agent:
        refused = refuse_once(agent, lambda body: body.type == "tool.finished")
        events = await sent(agent, "look")
        assert events[-1].type == "error"  # whoever waits is told
        assert refused
        await until(agent, events[0].run_loop_id, "run_loop.idle")
        loop = await agent.run_loop(events[0].run_loop_id)
        assert [result.content for result in loop.iterations[0].tool_results] == ["seen"]
        assert loop.iterations[1].response == "Done."


async def test_a_full_disk_while_a_loop_lapses_ends_nothing(tmp_path: Path) -> None:
    waits = Waits(storage_retry=0.05)
    async with running_agent(tmp_path, linger_seconds=0.05, waits=waits) as agent:
        refused = refuse_once(agent, lambda body: body.type == "run_loop.completed")
        events = await sent(agent, "hello")
        await until(agent, events[0].run_loop_id, "run_loop.completed")
        assert refused


async def test_a_router_that_breaks_still_lets_every_message_be_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_agent(tmp_path) as agent:
        await sent(agent, "first")

        async def broken(*args: Any, **options: Any) -> Route:
            raise KeyError("a bug")

        monkeypatch.setattr(Router, "route", broken)
        events = await sent(agent, "second")
        assert answer_of(events) == "You said: second"
        assert answer_of(await sent(agent, "third")) == "You said: third"


async def test_an_image_without_words_is_a_message_too(tmp_path: Path) -> None:
    picture = Message(role="user", content=(ImageUrlPart(url="https://x.example/a.png"),))
    async with running_agent(tmp_path, lambda messages: "A picture.") as agent:
        async with aclosing(agent.send(picture)) as events:
            assert answer_of([event async for event in events]) == "A picture."
        assert answer_of(await sent(agent, "and now words")) == "A picture."


@pytest.mark.slow
async def test_cancelling_waits_for_a_thread_that_changes_the_world(tmp_path: Path) -> None:
    started, finished = threading.Event(), threading.Event()

    @tool(effect="side_effects")
    def write() -> str:
        """Write, which takes a moment."""
        started.set()
        time.sleep(0.3)
        finished.set()
        return "written"

    async with (
        running_agent(tmp_path, lambda messages: [call("write")], write) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(sent, agent, "write")
        assert await anyio.to_thread.run_sync(started.wait, 20)
        loop = await agent.cancel(agent.memory.short_term.get_active()[0].id)
        assert finished.is_set()
        (result,) = loop.iterations[0].tool_results
        assert (result.content, result.is_error) == ("written", False)


async def test_two_who_cancel_at_once_leave_nothing_running(tmp_path: Path) -> None:
    started = anyio.Event()

    @tool()
    async def hang() -> str:
        """Hang."""
        started.set()
        await anyio.sleep_forever()
        return "never"

    async with (
        running_agent(tmp_path, lambda messages: [call("hang")], hang) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(sent, agent, "hang")
        with anyio.fail_after(20):
            await started.wait()
            loop_id = agent.memory.short_term.get_active()[0].id
            refuse_once(agent, lambda body: body.type == "run_loop.cancelled")
            outcomes: list[str] = []

            async def cancel() -> None:
                try:
                    outcomes.append((await agent.cancel(loop_id)).status)
                except StorageError:
                    outcomes.append("refused")

            async with anyio.create_task_group() as both:
                both.start_soon(cancel)
                both.start_soon(cancel)
        assert sorted(outcomes) == ["cancelled", "refused"]
        assert not agent.engine.scheduler.at_work


async def test_a_call_that_began_before_a_crash_is_not_run_when_its_tool_is_gone(
    tmp_path: Path,
) -> None:
    started = anyio.Event()

    @tool()
    async def hang() -> str:
        """Hang."""
        started.set()
        await anyio.sleep_forever()
        return "never"

    def respond(messages: Sequence[Message]) -> Answer:
        return messages[-1].text if messages[-1].role == "tool" else [call("hang")]

    async with running_agent(tmp_path, respond, hang) as agent, anyio.create_task_group() as group:
        group.start_soon(sent, agent, "hang")
        await started.wait()
        loop_id = agent.memory.short_term.get_active()[0].id
        group.cancel_scope.cancel()
    async with running_agent(tmp_path, respond) as agent:
        await until(agent, loop_id, "run_loop.idle")
        loop = await agent.run_loop(loop_id)
        assert "unknown" in loop.iterations[0].tool_results[0].content


@pytest.mark.parametrize(
    "message",
    [
        Message(role="tool", tool_call_id="x", content=Message.user("result").content),
        Message.assistant("I say"),
        Message(role="user", tool_calls=(ToolCall(id="x", name="y"),)),
        Message.user("half of \ud83d a character"),
    ],
)
async def test_what_would_break_a_history_is_refused_in_words(
    tmp_path: Path, message: Message
) -> None:
    async with running_agent(tmp_path) as agent:
        with pytest.raises(InvalidInputError):
            await agent.accept(message)
        with pytest.raises(InvalidInputError):
            await agent.accept("fine", metadata={"half": "\ud83d"})


async def test_a_model_that_cannot_be_warmed_up_does_not_end_the_agent(tmp_path: Path) -> None:
    class Cold(FunctionLLM):
        async def warm_up(self, *args: Any, **options: Any) -> None:
            raise OSError("no such device")

    async with running_agent(tmp_path, Cold(echo)) as agent:
        assert answer_of(await sent(agent, "hello")) == "You said: hello"


async def test_an_answered_message_is_replayed_whole_while_its_loop_waits_for_a_person(
    tmp_path: Path,
) -> None:
    @tool(needs_approval=True)
    async def launch() -> str:
        """Launch."""
        return "launched"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("launch")] if messages[-1].text == "launch" else "Hello!"

    async with running_agent(tmp_path, respond, launch) as agent:
        options: dict[str, Any] = {"idempotency_key": "k", "request_hash": "h"}
        receipt = await agent.accept("hello", **options)
        with agent.reader() as reader:
            first = [event async for event in agent.follow(receipt.message_id, reader=reader)]
        waiting = await sent(agent, "launch", first[0].run_loop_id)
        assert waiting[-1].type == "input.required"
        again = await agent.accept("hello", **options)
        with anyio.fail_after(20), agent.reader() as reader:
            replayed = [event async for event in agent.follow(again.message_id, reader=reader)]
        assert again.replayed
        assert answer_of(replayed) == "Hello!"
        assert replayed[-1].type == "run_loop.idle"


async def test_two_who_wait_for_the_same_delivery_both_hear_of_it(tmp_path: Path) -> None:
    async with running_agent(tmp_path) as agent:
        inbox = agent.memory.journal.inbox
        deliveries: list[Delivery] = []

        async def look_up(message_id: str) -> Delivery | None:
            return deliveries[0] if deliveries else None

        inbox.delivery = look_up  # type: ignore[method-assign]
        heard: list[object] = []

        async def wait() -> None:
            heard.append(await agent.delivery("m"))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.sleep(0.05)
                deliveries.append(Delivery("loop", 1))  # committed, and nobody was told yet
                group.start_soon(wait)
        assert heard == [Delivery("loop", 1)] * 2


async def test_a_message_that_is_sent_again_while_it_is_routed_is_routed_once(
    tmp_path: Path,
) -> None:
    routed: list[str] = []
    first, go_on = anyio.Event(), anyio.Event()

    class Slow(Hooks):
        async def before_routing(self, entry: InboxEntry, words: str) -> str:
            routed.append(words)
            first.set()
            await go_on.wait()
            return words

    async with running_agent(tmp_path, hooks=[Slow()]) as agent:
        options: dict[str, Any] = {"idempotency_key": "k", "request_hash": "h"}
        receipt = await agent.accept("Hello", **options)
        with anyio.fail_after(20):
            await first.wait()
        again = await agent.accept("Hello", **options)
        assert (again.message_id, again.replayed) == (receipt.message_id, True)
        go_on.set()
        # Messages without an id are routed in their order: the second time would come before this.
        await sent(agent, "And then?")
    assert routed == ["Hello", "And then?"]
