"""An agent that ends by itself ends the daemon, which says why."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from service.agent.agent_factory import create_agent
from service.config import Settings
from service.memory.archive.archivist import ArchivingHooks
from service.memory.memory import Memory
from service.server.daemon import Daemon
from service.tools.registry import ToolRegistry
from tests.support.agent.agents import FunctionLLM, echo

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), BaseExceptionGroup("two", [GeneratorExit(), ValueError("one")])],
    ids=["cancelled", "group"],
)
async def test_an_agent_whose_own_task_gives_up_is_a_failure_of_the_daemon(
    tmp_path: Path, error: BaseException
) -> None:
    memory = Memory(tmp_path, None)

    async def give_up(hooks: ArchivingHooks | None = None) -> None:
        await anyio.sleep(0.05)
        raise error

    memory.work = give_up  # type: ignore[method-assign]
    daemon = Daemon(Settings(), create_agent(FunctionLLM(echo), ToolRegistry(), memory))
    with anyio.fail_after(10):
        async with daemon.running():
            await daemon.failed.wait()
    assert daemon.failure is not None
    assert daemon.failure.problem().detail
