"""The audit trail: what ran, who asked for it, by whose leave, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.anchors import AnchorRef
from service.domain.audit import AuditEntry
from service.domain.conversation.messages import Message
from service.domain.errors import InvalidInputError
from service.domain.forgetting_terms import FORGOTTEN_ARGUMENTS, ForgetRequest
from service.domain.history.events import ToolStarted
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.run_script import run_script_tool
from service.tools.decorator import tool
from service.tools.protocol import ToolFailure
from tests.support.agent.agents import (
    Answer,
    call,
    running_agent,
    sending,
    sent,
    until,
)
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    request_id,
    rested,
    tool_call,
    wanting,
)

pytestmark = pytest.mark.anyio

ROCKET = wanting(launch_call("the rocket"))
ALONE: dict[str, Any] = {"auto_classify": False}


async def trail(agent: Agent, owner: str = "me", **asked_for: Any) -> tuple[AuditEntry, ...]:
    return (await agent.memory.journal.audit.page(owner=owner, **asked_for)).entries


async def test_a_call_is_told_with_who_asked_by_whose_leave_and_what_came_of_it(
    tmp_path: Path,
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent, "Launch it, please")
        assert await trail(agent) == ()  # nothing has run yet
        question = request_id(agent, loop_id)
        await agent.answer(loop_id, approved=True, arguments='{"what": "the kite"}')
        await rested(agent, loop_id)
        (entry,) = await trail(agent)
        (message_id,) = [
            event.body.message_id
            for event in await agent.memory.journal.read(run_loop_id=loop_id)
            if event.body.type == "message.received"
        ]
    assert (entry.run_loop_id, entry.goal) == (loop_id, "Launch it, please")
    assert entry.message_ids == (message_id,)
    assert (entry.tool, entry.arguments) == ("launch", '{"what": "the kite"}')
    assert (entry.effect, entry.outcome) == ("side_effects", "done")
    assert entry.result is not None
    assert "the kite is launched" in entry.result
    assert entry.grant is not None
    assert (entry.grant.kind, entry.grant.request_id) == ("asked", question)
    assert entry.grant.given_at is not None
    assert entry.finished_at is not None
    assert entry.grant.given_at <= entry.at <= entry.finished_at


async def test_leave_that_was_given_before_is_told_as_what_it_is(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="run_loop")
        await rested(agent, loop_id)
        await sent(agent, "once more", loop_id)
        other = await asked(agent, "in another matter")
        await agent.answer(other, approved=True, remember="always")
        await rested(agent, other)
        await sent(agent, "and a third one")
    free = ApprovalPolicy(mode="never")
    async with running_agent(tmp_path, ROCKET, launches.tool(), approval=free, **ALONE) as agent:
        await sent(agent, "without a question")
        kinds = [each.grant.kind for each in await trail(agent) if each.grant is not None]
    assert kinds == ["not_needed", "always", "asked", "run_loop", "asked"]


@pytest.mark.slow
async def test_a_script_is_told_with_the_hash_of_what_ran(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    run_script = run_script_tool(folder)
    model = wanting(tool_call("run_script", name="s.sh"))
    async with running_agent(tmp_path / "data", model, run_script, **ALONE) as agent:
        for words in ("one", "two"):
            (folder / "s.sh").write_text(f"echo {words}\n")
            loop_id = await asked(agent, words)
            await agent.answer(loop_id, approved=True)
            await rested(agent, loop_id)
        second, first = await trail(agent)
        assert first.about is not None
        assert second.about is not None
        assert first.about.startswith("run_script s.sh sha256:")
        assert len(first.about.rpartition(":")[2]) == len(hashlib.sha256().hexdigest())
        assert first.about != second.about


@tool(effect="read_only")
async def look() -> str:
    """Look."""
    return "a cat"


@tool(effect="side_effects")
async def drop(where: str) -> str:
    """Drop it."""
    raise ToolFailure(f"it does not fall {where}")


async def test_what_only_reads_is_told_where_it_is_asked_for_and_a_failure_as_one(
    tmp_path: Path,
) -> None:
    model = wanting(call("look"), tool_call("drop", 1, where='"effect":"read_only"'))
    async with running_agent(tmp_path, model, look, drop) as agent:
        await sent(agent, "Do both")
        (entry,) = await trail(agent)
        assert (entry.tool, entry.outcome) == ("drop", "failed")
        assert entry.result is not None
        assert "it does not fall" in entry.result
        everything = await trail(agent, with_read_only=True)
        assert {each.tool: each.effect for each in everything} == {
            "drop": "side_effects",
            "look": "read_only",
        }
        assert [each.tool for each in await trail(agent, tool="drop")] == ["drop"]
        assert await trail(agent, tool="look") == ()
        assert await trail(agent, tool='drop","x":"') == ()


async def test_what_was_interrupted_is_unknown_and_what_is_under_way_runs(tmp_path: Path) -> None:
    begun, never = anyio.Event(), anyio.Event()

    @tool(effect="side_effects")
    async def post() -> str:
        """Post it."""
        begun.set()
        await never.wait()
        return "posted"

    async with running_agent(tmp_path, wanting(call("post")), post, **ALONE) as agent:
        async with sending(agent, "Post it") as events:
            await begun.wait()
            await until(lambda: events)
            assert [each.outcome for each in await trail(agent)] == ["running"]
            await agent.cancel(events[0].run_loop_id)
        (entry,) = await trail(agent)
        assert (entry.outcome, entry.result, entry.finished_at) == ("unknown", None, None)
        begun = anyio.Event()
        await agent.accept("Post it again")
        await begun.wait()
    async with running_agent(tmp_path, wanting(call("post")), post, **ALONE) as agent:
        state = agent.memory.short_term.states
        await until(lambda: state() and state()[0].status == "idle")
        assert [each.outcome for each in await trail(agent)] == ["unknown", "unknown"]
        newest = (await trail(agent))[0]
        assert newest.result is not None
        assert "unknown" in newest.result


async def test_calls_of_the_same_id_have_each_their_own_result(tmp_path: Path) -> None:
    @tool(effect="side_effects")
    async def step(n: int) -> str:
        """Take a step."""
        return f"step {n}"

    def respond(messages: Sequence[Message]) -> Answer:
        steps = sum(message.role == "tool" for message in messages)
        return [call("step", f'{{"n": {steps}}}')] if steps < 3 else "There."

    async with running_agent(tmp_path, respond, step, max_repeated_calls=9) as agent:
        await sent(agent, "Walk")
        results = [each.result for each in await trail(agent)]
    assert results == ["step 2", "step 1", "step 0"]


async def test_a_fork_has_run_nothing_and_a_moved_call_is_told_once(tmp_path: Path) -> None:
    launches = Launches()
    model = wanting(launch_call("the rocket"))
    tools = launches.tool(needs_approval=False)
    async with running_agent(tmp_path, model, tools, **ALONE) as agent:
        first = (await sent(agent, "Launch it"))[0].run_loop_id
        other = (await sent(agent, "Another matter"))[0].run_loop_id
        before = await trail(agent)
        await agent.fork(first)
        assert await trail(agent) == before
        await agent.reroute(first, to=other)
        after = await trail(agent)
        assert [each.at for each in after] == [each.at for each in before]
        assert {each.run_loop_id for each in after} == {other}
        await agent.undo_reroute(other, message_id=after[-1].message_ids[0])
        back = await trail(agent)
        assert [each.run_loop_id for each in back] == [each.run_loop_id for each in before]
        assert [each.result for each in back] == [each.result for each in before]


async def test_pages_give_each_call_once_newest_first_and_other_owners_none(
    tmp_path: Path,
) -> None:
    launches = Launches()
    tools = launches.tool(needs_approval=False)
    async with running_agent(tmp_path, ROCKET, tools, **ALONE) as agent:
        for number in range(5):
            await sent(agent, f"Launch {number}")
        await sent(agent, "发射", owner="她")
        audit = agent.memory.journal.audit
        seqs: list[int] = []
        cursor: str | None = None
        for _ in range(3):
            page = await audit.page(owner="me", limit=2, cursor=cursor)
            seqs += [each.seq for each in page.entries]
            cursor = page.next
        assert cursor is None
        assert len(seqs) == 5
        assert seqs == sorted(set(seqs), reverse=True)
        (hers,) = await trail(agent, owner="她")
        assert hers.goal == "发射"
        one = (await trail(agent))[2]
        assert await trail(agent, run_loop_id=one.run_loop_id) == (one,)
        assert await trail(agent, since=one.at, until=one.at) == ()
        assert one in await trail(agent, since=one.at)
        assert one not in await trail(agent, until=one.at)
        for nonsense in ("", "1", "1-", "-1-2", "1-2 OR 1", "9" * 30 + "-1"):
            with pytest.raises(InvalidInputError):
                await audit.page(owner="me", cursor=nonsense)


async def test_forgetting_takes_the_entry_with_the_loop_and_its_words_with_the_iteration(
    tmp_path: Path,
) -> None:
    launches = Launches()
    tools = launches.tool(needs_approval=False)
    async with running_agent(tmp_path, ROCKET, tools, linger_seconds=0, **ALONE) as agent:
        gone = (await sent(agent, "Launch it"))[0].run_loop_id
        stays = (await sent(agent, "Launch another"))[0].run_loop_id
        await until(lambda: not agent.memory.short_term.states())
        await agent.memory.archivist.drain()
        for request in (
            ForgetRequest(run_loop_ids=(gone,)),
            ForgetRequest(anchors=(AnchorRef(stays, 0, 0),)),
        ):
            preview = await agent.preview_forgetting(request)
            assert preview.confirm is not None, preview.notice
            await agent.forget(request, preview.confirm)
        (entry,) = await trail(agent)
        assert entry.run_loop_id == stays
        assert entry.arguments == FORGOTTEN_ARGUMENTS
        assert "rocket" not in entry.model_dump_json()
        assert (entry.tool, entry.outcome) == ("launch", "done")


async def test_a_call_of_an_older_version_is_told_without_what_that_did_not_write(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, lambda _: "Hi.") as agent:
        loop_id = (await sent(agent, "hello"))[0].run_loop_id
        old = ToolStarted(call_id="c", name="pay", arguments="{}", idempotency_key="k")
        await agent.memory.journal.append(loop_id, old)
        (entry,) = await trail(agent)
    assert (entry.tool, entry.effect, entry.about, entry.grant) == ("pay", None, None, None)
    assert entry.outcome == "unknown"
