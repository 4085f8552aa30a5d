"""What a fork takes over from another loop is its history, and no news of its own."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.domain.history.events import Event
from tests.support.agent.agents import running_agent, sent, types, until

pytestmark = pytest.mark.anyio


async def test_a_fork_of_a_loop_that_was_once_cancelled_is_neither_announced_nor_remembered_as_such(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path) as agent:
        origin = (await sent(agent, "One"))[0].run_loop_id
        await agent.cancel(origin)
        await sent(agent, "Two", origin)
        await agent.memory.archivist.drain()
        seen: list[Event] = []
        observed: list[Event] = []
        watching = anyio.Event()

        async def watch() -> None:
            watching.set()
            async for event in agent.events():
                seen.append(event)  # noqa: PERF401  they are to be seen as they come

        with agent.memory.short_term.events().subscribe(observed.append):
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                await watching.wait()
                await anyio.wait_all_tasks_blocked()
                fork = await agent.fork(origin)
                assert fork.status == "idle"
                await agent.memory.archivist.drain()
                remembered = await agent.memory.long_term.run_loop(fork.id, owner="me")
                assert remembered is not None
                assert remembered.status == "idle"
                await sent(agent, "Three", fork.id)
                await until(lambda: "run_loop.idle" in types(seen))
                await until(lambda: "run_loop.idle" in types(observed))
                group.cancel_scope.cancel()
        assert types(seen)[:2] == ["run_loop.started", "message.received"]
        assert {event.run_loop_id for event in seen} == {fork.id}
        assert types(observed) == types(seen)
        history = types(await agent.memory.journal.read(run_loop_id=fork.id))
        common = types(await agent.memory.journal.read(run_loop_id=origin))
        common = [each for each in common if each != "usage"]
        assert history[: len(common)] == common
        assert "run_loop.cancelled" in history
        assert (await agent.replay(fork.id)).iteration_count == 3


@pytest.mark.slow
async def test_a_fork_that_rests_completes_when_no_follow_up_comes(tmp_path: Path) -> None:
    async with running_agent(tmp_path, linger_seconds=0.2) as agent:
        origin = (await sent(agent, "One"))[0].run_loop_id
        await until(lambda: not agent.memory.short_term.states())
        fork = await agent.fork(origin)
        await until(lambda: not agent.memory.short_term.states())
        assert (await agent.run_loop(fork.id)).status == "completed"
        await agent.memory.archivist.drain()
        remembered = await agent.memory.long_term.run_loop(fork.id, owner="me")
        assert remembered == await agent.run_loop(fork.id)
