"""Work that moves or cancels work which does the same to it: nobody waits for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConflictError
from service.domain.history.events import MessageReceived
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, call, running_agent, sending, sent, until
from tests.support.agent.moves import heard, whole

pytestmark = pytest.mark.anyio

Act = Callable[[Agent, str], Awaitable[object]]


async def move(agent: Agent, run_loop_id: str) -> object:
    return await agent.reroute(run_loop_id)


async def cancel(agent: Agent, run_loop_id: str) -> object:
    return await agent.cancel(run_loop_id)


class Ring:
    """Run loops at work, each of which acts on the next one once all are at work.

    Args:
        shielded: whether a tool sees to the end of it, even when its own loop is stopped.
    """

    def __init__(self, acts: Sequence[Act], *, shielded: bool) -> None:
        self.acts = acts
        self.shielded = shielded
        self.agent: Agent
        self.loops: list[str] = []
        self.ended: list[str] = []
        """Whose tool came to an end of its own."""
        self.refused: list[ConflictError] = []
        self.tool = tool(effect="read_only")(self.act_on_the_next)

    async def act_on_the_next(self, context: ToolContext) -> str:
        """Act."""
        if len(self.loops) == len(self.acts):
            return "done before, by another loop or this one"
        place = len(self.loops)
        self.loops.append(context.run_loop_id)
        with anyio.CancelScope(shield=self.shielded), anyio.fail_after(10):
            await until(lambda: len(self.loops) == len(self.acts))
            following = self.loops[(place + 1) % len(self.loops)]
            try:
                await self.acts[place](self.agent, following)
            except ConflictError as error:
                self.refused.append(error)
            self.ended.append(context.run_loop_id)
        return "acted"

    def respond(self, messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool" or messages[-1].text == "Hello":
            return "Done."
        return [call("act_on_the_next")]


@pytest.mark.slow
@pytest.mark.parametrize("shielded", [True, False])
@pytest.mark.parametrize(
    "acts", [(move, move), (move, cancel), (cancel, cancel), (move, move, move)]
)
async def test_those_who_stop_each_other_at_once_all_come_to_an_end(
    tmp_path: Path, acts: Sequence[Act], shielded: bool
) -> None:
    ring = Ring(acts, shielded=shielded)
    async with running_agent(tmp_path, ring.respond, ring.tool, auto_classify=False) as agent:
        ring.agent = agent
        for n in range(len(acts)):
            await agent.accept(f"Act {n}")
        await until(lambda: len(ring.loops) == len(acts))
        await until(lambda: all(s.status != "running" for s in agent.memory.short_term.states()))
        if shielded:
            assert sorted(ring.ended) == sorted(ring.loops)
            assert ring.refused
        for each in await agent.memory.journal.run_loops.summaries(owner="me"):
            await whole(agent, each.id)
        said = [
            e.body.message.text
            for e in await agent.memory.journal.read(kind="message.received")
            if isinstance(e.body, MessageReceived)
        ]
        assert set(said) == {f"Act {n}" for n in range(len(acts))}
        assert (await sent(agent, "Hello"))[-1].type == "run_loop.idle"


async def test_who_gives_up_waiting_for_a_loop_to_stop_leaves_it_as_it_was(tmp_path: Path) -> None:
    may_end, began = anyio.Event(), list[str]()

    @tool(effect="side_effects")
    async def look() -> str:
        """Look."""
        began.append("look")
        with anyio.CancelScope(shield=True):
            await may_end.wait()
        return "seen"

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "tool" or messages[-1].text == "Hello":
            return "Done."
        return [call("look")]

    async with running_agent(tmp_path, respond, look, auto_classify=False) as agent:
        scheduler = agent.engine.scheduler
        async with sending(agent, "Look") as events:
            await until(lambda: began)
            loop = events[0].run_loop_id
            with anyio.move_on_after(0.02) as gave_up:
                async with scheduler.held(loop, "move"):
                    raise AssertionError("it works still")
            assert gave_up.cancelled_caught
            may_end.set()
        # It was told to stop, and so it has; nobody holds it, and it goes on.
        assert began == ["look"]
        assert events[-1].type == "run_loop.idle"
        assert (await whole(agent, loop)).status == "idle"
        assert (await sent(agent, "Hello", loop))[-1].type == "run_loop.idle"


async def test_a_move_whose_caller_is_cancelled_while_it_waits_is_made_when_the_work_has_ended(
    tmp_path: Path,
) -> None:
    may_end, began = anyio.Event(), list[str]()

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        began.append("look")
        with anyio.CancelScope(shield=True):
            await may_end.wait()
        return "seen"

    def respond(messages: Sequence[Message]) -> Answer:
        return "Done." if messages[-1].role == "tool" else [call("look")]

    async with running_agent(tmp_path, respond, look, auto_classify=False) as agent:
        async with sending(agent, "Look") as events:
            await until(lambda: began)
            loop = events[0].run_loop_id
            with anyio.move_on_after(0.02) as left:
                await agent.reroute(loop)
            assert left.cancelled_caught
            may_end.set()
        assert events[-1].type == "run_loop.idle"
        target = events[-1].run_loop_id
        assert target != loop
        assert heard(await whole(agent, target)) == ["Look", None]
        assert (await whole(agent, loop)).status == "cancelled"
        # Nothing holds it any more.
        assert (await sent(agent, "Hello", loop))[-1].type == "run_loop.idle"


async def test_a_loop_that_is_woken_when_the_agent_has_closed_is_left_for_the_next_start(
    tmp_path: Path,
) -> None:
    began = anyio.Event()

    @tool(effect="read_only")
    async def look() -> str:
        """Look."""
        began.set()
        await anyio.sleep_forever()
        return "seen"

    def respond(messages: Sequence[Message]) -> Answer:
        return [call("look")]

    async with running_agent(tmp_path, respond, look, auto_classify=False) as agent:
        scheduler, loops = agent.engine.scheduler, agent.memory.short_term
        await agent.accept("Look")
        with anyio.fail_after(20):
            await began.wait()
    (loop,) = loops.get_active()
    assert loop.status == "running"
    scheduler.wake(loop.id)
    assert not scheduler.at_work
