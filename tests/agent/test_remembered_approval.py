"""A yes can hold for longer than one call; and what asks for a yes can be set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.domain.history.human_input import CallDecision, Remember
from service.tools.approval import ApprovalMode, ApprovalPolicy
from service.tools.builtins.run_script import run_script_tool
from service.tools.decorator import FunctionTool, tool
from tests.support.agent.agents import request_of, running_agent, sent, types
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    request_id,
    rested,
    results_of,
    tool_call,
    wanting,
)

pytestmark = pytest.mark.anyio

ROCKET = wanting(launch_call("the rocket"))
ALONE: dict[str, Any] = {"auto_classify": False}
"""Each message opens a loop of its own."""


def room_cleaner(cleaned: list[str]) -> FunctionTool:
    @tool(needs_approval=True, scope=lambda given: str(given["room"]))
    async def clean(room: str) -> None:
        """Clean a room."""
        cleaned.append(room)

    return clean


@pytest.mark.slow
async def test_a_yes_for_this_loop_holds_in_it_and_nowhere_else(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="run_loop")
        await rested(agent, loop_id)
        again = await sent(agent, "once more", loop_id)
        assert again[-1].type == "run_loop.idle"
        assert launches.launched == ["the rocket"] * 2
        await asked(agent, "in another matter")
        assert agent.memory.journal.standing_approvals.of("me") == ()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        await sent(agent, "after a restart", loop_id)
        assert launches.launched == ["the rocket"] * 3


async def test_fifty_approvals_in_five_minutes_are_one_question_and_then_none(
    tmp_path: Path,
) -> None:
    launches = Launches()
    fifty = wanting(*(launch_call(f"rocket {number}", number) for number in range(50)))
    async with running_agent(tmp_path, fifty, launches.tool(), **ALONE) as agent:
        events = await sent(agent, "launch them")
        assert types(events).count("input.required") == 1
        assert len(request_of(events).tool_calls) == 50
        loop_id = events[0].run_loop_id
        await agent.answer(loop_id, approved=True, remember="run_loop")
        await rested(agent, loop_id)
        assert len(launches.launched) == 50
        assert "input.required" not in types(await sent(agent, "and once more", loop_id))
        assert len(set(launches.launched)) == 50
        assert len(launches.launched) == 100


async def test_a_yes_for_good_holds_everywhere_until_it_is_taken_back(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
        (standing,) = agent.memory.journal.standing_approvals.of("me")
        assert (standing.scope, standing.tool) == ("launch", "launch")
        assert standing.run_loop_id == loop_id
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        events = await sent(agent, "in another matter")
        assert "input.required" not in types(events)
        assert launches.launched == ["the rocket"] * 2
        await agent.memory.journal.standing_approvals.revoke("launch", owner="me")
        await asked(agent, "and after that")
        with pytest.raises(NotFoundError):
            await agent.memory.journal.standing_approvals.revoke("launch", owner="me")
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        await asked(agent, "after a restart too")
        assert launches.launched == ["the rocket"] * 2


async def test_a_yes_of_one_owner_is_none_of_another(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent, owner="ada")
        await agent.answer(loop_id, approved=True, remember="always", owner="ada")
        await asked(agent, owner="me")
        with pytest.raises(NotFoundError):
            await agent.memory.journal.standing_approvals.revoke("launch", owner="me")
        assert len(agent.memory.journal.standing_approvals.of("ada")) == 1


async def test_a_tool_can_say_what_a_yes_covers(tmp_path: Path) -> None:
    cleaned: list[str] = []
    kitchen, bath = tool_call("clean", room="厨房"), tool_call("clean", room="bath")
    rooms = [kitchen, kitchen, bath]

    async with running_agent(
        tmp_path, lambda m: wanting(rooms[0])(m), room_cleaner(cleaned), **ALONE
    ) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
        rooms.pop(0)
        await sent(agent, "again")
        assert cleaned == ["厨房", "厨房"]
        rooms.pop(0)
        await asked(agent, "the other one")
        (standing,) = agent.memory.journal.standing_approvals.of("me")
        assert standing.scope == "clean 厨房"


async def test_what_is_remembered_of_an_edited_call_is_what_was_run(tmp_path: Path) -> None:
    cleaned: list[str] = []
    model = wanting(tool_call("clean", room="bath"))
    async with running_agent(tmp_path, model, room_cleaner(cleaned), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(
            loop_id, approved=True, arguments='{"room": "kitchen"}', remember="always"
        )
        await rested(agent, loop_id)
        assert cleaned == ["kitchen"]
        (standing,) = agent.memory.journal.standing_approvals.of("me")
        assert standing.scope == "clean kitchen"
        await asked(agent, "and the bath?")


async def test_of_a_yes_and_a_no_only_the_yes_is_remembered(tmp_path: Path) -> None:
    cleaned: list[str] = []
    model = wanting(tool_call("clean", 0, room="bath"), tool_call("clean", 1, room="kitchen"))
    async with running_agent(tmp_path, model, room_cleaner(cleaned), **ALONE) as agent:
        loop_id = await asked(agent)
        no = CallDecision(call_id="c0", approved=False)
        await agent.answer(loop_id, approved=True, decisions=[no], remember="always")
        await rested(agent, loop_id)
        scopes = [each.scope for each in agent.memory.journal.standing_approvals.of("me")]
        assert scopes == ["clean kitchen"]


async def test_an_answer_that_is_refused_allows_nothing_for_good(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool()) as agent:
        loop_id = await asked(agent)
        with pytest.raises(InvalidInputError):
            await agent.answer(loop_id, approved=True, arguments="{}", remember="always")
        assert agent.memory.journal.standing_approvals.of("me") == ()


async def test_a_fork_does_not_bring_back_what_was_revoked(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
        await agent.memory.journal.standing_approvals.revoke("launch", owner="me")
        await agent.fork(loop_id)
        assert agent.memory.journal.standing_approvals.of("me") == ()


# --- what asks


async def test_always_means_always_whatever_is_remembered(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
    strict = ApprovalPolicy(per_tool={"launch": "always"})
    async with running_agent(tmp_path, ROCKET, launches.tool(), approval=strict, **ALONE) as agent:
        loop_id = await asked(agent, "again")
        with pytest.raises(InvalidInputError, match="cannot be remembered"):
            await agent.answer(loop_id, approved=True, remember="run_loop")
        await agent.answer(loop_id, approved=True)
        await rested(agent, loop_id)
        assert launches.launched == ["the rocket"] * 2


async def test_never_asks_nobody(tmp_path: Path) -> None:
    launches = Launches()
    options = {**ALONE, "approval": ApprovalPolicy(mode="never")}
    async with running_agent(tmp_path, ROCKET, launches.tool(), **options) as agent:
        await sent(agent, "launch it")
        assert launches.launched == ["the rocket"]


async def test_a_predicate_asks_for_some_calls_of_a_tool(tmp_path: Path) -> None:
    launches = Launches()
    big = ApprovalPolicy(when={"launch": lambda arguments: "rocket" in arguments["what"]})
    things = ["a kite", "the rocket"]
    async with running_agent(
        tmp_path,
        lambda m: wanting(launch_call(things[0]))(m),
        launches.tool(needs_approval=False),
        approval=big,
        **ALONE,
    ) as agent:
        await sent(agent, "launch something small")
        assert launches.launched == ["a kite"]
        things.pop(0)
        loop_id = await asked(agent, "and now something big")
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
        await sent(agent, "and once more")
        assert launches.launched == ["a kite", "the rocket", "the rocket"]


async def test_a_rule_that_fails_asks(tmp_path: Path) -> None:
    launches = Launches()
    broken = ApprovalPolicy(rule=lambda call, tool: 1 / 0 > 1)
    async with running_agent(
        tmp_path, ROCKET, launches.tool(needs_approval=False), approval=broken
    ) as agent:
        loop_id = await asked(agent)
        assert launches.launched == []
        await agent.answer(loop_id, approved=False)
        assert "did not allow" in results_of(await rested(agent, loop_id))[0]


# --- what has changed since it was asked about


class Rooms:
    """A tool whose calls are about something that can change while they wait."""

    def __init__(self) -> None:
        self.cleaned: list[str] = []
        self.state = "dusty"

        @tool(needs_approval=True, scope=lambda given: f"{given['room']} {self.state}")
        async def clean(room: str) -> None:
            """Clean a room."""
            self.cleaned.append(f"{room} {self.state}")

        self.tool = clean


@pytest.mark.parametrize(
    ("mode", "remember"),
    [
        ("tool-declared", None),
        ("tool-declared", "run_loop"),
        ("tool-declared", "always"),
        ("always", None),  # where no yes is remembered, it is about the same
    ],
)
async def test_a_yes_to_what_has_changed_meanwhile_is_refused_and_asked_for_again(
    tmp_path: Path, remember: Remember | None, mode: ApprovalMode
) -> None:
    rooms = Rooms()
    model = wanting(tool_call("clean", room="bath"))
    policy = ApprovalPolicy(mode=mode)
    async with running_agent(tmp_path, model, rooms.tool, approval=policy, **ALONE) as agent:
        loop_id = await asked(agent)
        first = request_id(agent, loop_id)
        rooms.state = "flooded"
        for _ in range(2):  # sent again, it is still an answer to the first question
            with pytest.raises(ConflictError, match=r"changed since|asked again"):
                await agent.answer(loop_id, approved=True, remember=remember, request_id=first)
        assert rooms.cleaned == []
        assert agent.memory.journal.standing_approvals.of("me") == ()
        assert (await agent.run_loop(loop_id)).status == "waiting_for_human_input"
        assert request_id(agent, loop_id) != first
        now = request_id(agent, loop_id)
        await agent.answer(loop_id, approved=True, remember=remember, request_id=now)
        await rested(agent, loop_id)
        assert rooms.cleaned == ["bath flooded"]


async def test_a_no_to_what_has_changed_meanwhile_is_taken(tmp_path: Path) -> None:
    rooms = Rooms()
    model = wanting(tool_call("clean", room="bath"))
    async with running_agent(tmp_path, model, rooms.tool) as agent:
        loop_id = await asked(agent)
        rooms.state = "flooded"
        await agent.answer(loop_id, approved=False)
        assert "did not allow" in results_of(await rested(agent, loop_id))[0]


@pytest.mark.parametrize("edited", [None, '{"room": "kitchen"}'])
async def test_what_changes_between_the_yes_and_the_start_is_not_run(
    tmp_path: Path, edited: str | None
) -> None:
    rooms = Rooms()
    model = wanting(tool_call("clean", room="bath"))
    async with running_agent(tmp_path, model, rooms.tool) as agent:
        loop_id = await asked(agent)
        scheduler = agent.engine.scheduler
        async with scheduler.held(loop_id, "interrupt"):
            await agent.answer(loop_id, approved=True, arguments=edited)
            rooms.state = "flooded"
        (result,) = (await rested(agent, loop_id)).iterations[0].tool_results
        assert result.is_error
        assert "changed since" in result.content
        assert rooms.cleaned == []


async def test_a_changed_script_is_run_only_after_a_yes_to_its_new_words(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    script = folder / "a.sh"
    script.write_text("echo old words\n")
    model = wanting(tool_call("run_script", name="a.sh"))
    async with running_agent(tmp_path / "data", model, run_script_tool(folder), **ALONE) as agent:
        loop_id = await asked(agent)
        script.write_text("echo new words\n")
        with pytest.raises(ConflictError, match=r"changed since: `run_script` .*a\.sh"):
            await agent.answer(loop_id, approved=True, remember="always")
        assert agent.memory.journal.standing_approvals.of("me") == ()
        async with agent.engine.scheduler.held(loop_id, "interrupt"):
            now = request_id(agent, loop_id)
            await agent.answer(loop_id, approved=True, request_id=now)
            script.write_text("echo newest words\n")
        assert "changed since" in results_of(await rested(agent, loop_id))[0]
        loop_id = await asked(agent, "again")
        await agent.answer(loop_id, approved=True, remember="always")
        assert "newest words" in results_of(await rested(agent, loop_id))[0]
        await sent(agent, "and once more")
        script.write_text("echo other words\n")
        await asked(agent, "after another change")


async def test_a_question_of_before_scopes_were_kept_is_asked_again(tmp_path: Path) -> None:
    rooms = Rooms()
    model = wanting(tool_call("clean", room="bath"))
    async with running_agent(tmp_path, model, rooms.tool) as agent:
        loop_id = await asked(agent)
        state = agent.memory.short_term.state(loop_id)
        assert state is not None
        assert state.awaiting is not None
        old = state.awaiting.model_copy(update={"scopes": {}, "request_id": "old"})
        await agent.memory.journal.append(loop_id, old)
        with pytest.raises(ConflictError):
            await agent.answer(loop_id, approved=True, request_id="old")
        await agent.answer(loop_id, approved=True, request_id=request_id(agent, loop_id))
        await rested(agent, loop_id)
        assert rooms.cleaned == ["bath dusty"]
