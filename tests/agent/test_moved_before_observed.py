"""What happens to a message in the moment before an iteration observes it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.history.events import EventBody, RunLoopCancelled
from service.domain.history.state import RunLoopState
from service.loop.executor_deps import ExecutorDeps
from service.memory.journal.rewriting import Rewriter
from tests.support.agent.agents import FunctionLLM, until
from tests.support.agent.moves import answers, heard, whole
from tests.support.agent.moving import at_rest, message_ids, opened, running, unseen

pytestmark = pytest.mark.anyio


class Recalling:
    """Memory that takes its time, once it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits = False
        self.began = anyio.Event()
        self.may_go_on = anyio.Event()
        module = import_module("service.loop.executors.call_llm")
        monkeypatch.setattr(module, "recall_for", self._recall)

    async def _recall(
        self, deps: ExecutorDeps, state: RunLoopState, message_ids: Sequence[str]
    ) -> list[EventBody]:
        if self.waits:
            self.began.set()
            await self.may_go_on.wait()
        return []


async def test_a_message_that_is_moved_while_memory_is_searched_for_it_is_observed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalling = Recalling(monkeypatch)
    llm = FunctionLLM(lambda messages: f"You said: {messages[-1].text}")
    async with running(tmp_path, llm) as agent:
        bill = await opened(agent, "The bill")
        recalling.waits = True
        await agent.accept("By train", run_loop_id=bill)
        await recalling.began.wait()
        moved = await agent.reroute(bill)
        recalling.may_go_on.set()
        await at_rest(agent, moved.to_run_loop_id)
        await at_rest(agent, bill)
        assert len(llm.calls) == 2
        source, target = await whole(agent, bill), await whole(agent, moved.to_run_loop_id)
        assert (heard(source), heard(target)) == (["The bill"], ["By train"])
        assert answers(target) == ["You said: By train"]


async def test_a_move_that_is_written_just_before_the_iteration_begins_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalling = Recalling(monkeypatch)
    async with running(tmp_path) as agent:
        journal = agent.memory.journal
        bill = await opened(agent, "The bill")
        recalling.waits = True
        await agent.accept("By train", run_loop_id=bill)
        await recalling.began.wait()
        began, may_write = threading.Event(), threading.Event()
        wants: list[str] = []

        def hold(rewriter: Rewriter) -> None:
            began.set()
            may_write.wait(10)

        def noting(name: str) -> None:
            write = getattr(journal, name)

            async def noted(*args: Any, **options: Any) -> Any:
                wants.append(name)
                return await write(*args, **options)

            monkeypatch.setattr(journal, name, noted)

        async with anyio.create_task_group() as group:
            group.start_soon(journal.rewrite, hold)
            await until(began.is_set)
            noting("append_together")
            noting("append")
            group.start_soon(agent.reroute, bill)
            await until(lambda: wants == ["append_together"])
            recalling.may_go_on.set()
            await until(lambda: wants == ["append_together", "append"])
            may_write.set()
        await at_rest(agent, bill)
        assert heard(await whole(agent, bill)) == ["The bill"]


async def test_what_comes_in_while_memory_is_searched_does_not_keep_a_message_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalling = Recalling(monkeypatch)
    async with running(tmp_path) as agent:
        bill = await opened(agent, "The bill")
        recalling.waits = True
        await agent.accept("By train", run_loop_id=bill)
        await recalling.began.wait()
        await agent.accept("And then?", run_loop_id=bill, mode="followup")
        await until(lambda: unseen(agent, bill) == 2)
        recalling.may_go_on.set()
        await until(lambda: unseen(agent, bill) == 0)
        await at_rest(agent, bill)
        assert heard(await whole(agent, bill)) == ["The bill", "By train", "And then?"]
        assert len(await message_ids(agent, bill)) == 3


async def test_a_loop_that_ends_while_memory_is_searched_does_not_ask_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalling = Recalling(monkeypatch)
    llm = FunctionLLM(lambda messages: "Yes.")
    async with running(tmp_path, llm) as agent:
        bill = await opened(agent, "The bill")
        recalling.waits = True
        await agent.accept("By train", run_loop_id=bill)
        await recalling.began.wait()
        await agent.memory.journal.append(bill, RunLoopCancelled(reason="enough"))
        recalling.may_go_on.set()
        await anyio.wait_all_tasks_blocked()
        assert len(llm.calls) == 1
        assert (await agent.replay(bill)).status == "cancelled"
