"""A tool that asks the person in the middle of a call: it goes on with their answer, and never
twice where that would do harm."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.instructions import RequestHumanPrompt
from service.domain.conversation.tool_definitions import ToolContext, ToolEffect
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.state import OUTCOME_UNKNOWN
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import InputNeeded
from tests.support.agent.agents import running_agent, until
from tests.support.agent.waiting import asked, rested, results_of, tool_call, wanting

pytestmark = pytest.mark.anyio


@dataclass(slots=True)
class Transfers:
    """What was transferred, with which answer; held up on the way, if that is wished for."""

    done: list[str | None] = field(default_factory=list)
    held_up: bool = False

    def tool(self, effect: ToolEffect, *, needs_approval: bool = False) -> FunctionTool:
        @tool(name="transfer", effect=effect, needs_approval=needs_approval)
        async def transfer(to: str, context: ToolContext) -> str:
            """Transfer money."""
            if context.elicited is None:
                raise InputNeeded(RequestHumanPrompt(prompt="How much?"), {"to": to})
            self.done.append(context.elicited.answer)
            if self.held_up:
                await anyio.sleep_forever()
            return f"{context.elicited.answer} to {context.elicited.kept['to']}"

        return transfer


async def answer(
    agent: Agent, run_loop_id: str, text: str | None = None, approved: bool | None = None
) -> None:
    state = agent.memory.short_term.state(run_loop_id)
    assert state is not None
    assert state.awaiting is not None
    await agent.answer(
        run_loop_id, text=text, approved=approved, request_id=state.awaiting.request_id
    )


CALL = wanting(tool_call("transfer", to="Ada"))


@pytest.mark.parametrize("effect", ["read_only", "side_effects"])
async def test_it_is_run_again_with_the_answer(tmp_path: Path, effect: ToolEffect) -> None:
    transfers = Transfers()
    async with running_agent(tmp_path, CALL, transfers.tool(effect)) as agent:
        run_loop = await asked(agent)
    async with running_agent(tmp_path, CALL, transfers.tool(effect)) as agent:
        await answer(agent, run_loop, "五 euros")
        assert results_of(await rested(agent, run_loop)) == ["五 euros to Ada"]
    assert transfers.done == ["五 euros"]


async def test_a_yes_to_the_call_still_counts_after_the_question(tmp_path: Path) -> None:
    transfers = Transfers()
    pay = transfers.tool("side_effects", needs_approval=True)
    async with running_agent(tmp_path, CALL, pay) as agent:
        run_loop = await asked(agent)
        await answer(agent, run_loop, approved=True)
        short_term = agent.memory.short_term
        await until(
            lambda: (
                (state := short_term.state(run_loop)) is not None
                and state.awaiting is not None
                and state.awaiting.kind == "prompt"
            )
        )
        await answer(agent, run_loop, "5")
        assert results_of(await rested(agent, run_loop)) == ["5 to Ada"]


@pytest.mark.parametrize(
    ("effect", "results", "runs"),
    [("idempotent", ["5 to Ada"], 2), ("side_effects", [OUTCOME_UNKNOWN], 1)],
)
async def test_interrupted_after_the_answer_it_runs_again_only_where_it_may(
    tmp_path: Path, effect: ToolEffect, results: list[str], runs: int
) -> None:
    transfers = Transfers(held_up=True)
    async with running_agent(tmp_path, CALL, transfers.tool(effect)) as agent:
        run_loop = await asked(agent)
        await answer(agent, run_loop, "5")
        await until(lambda: transfers.done)
    transfers.held_up = False
    async with running_agent(tmp_path, CALL, transfers.tool(effect)) as agent:
        assert results_of(await rested(agent, run_loop)) == results
    assert transfers.done == ["5"] * runs


async def test_what_was_answered_on_the_way_is_forgotten_with_its_loop(tmp_path: Path) -> None:
    @tool(name="transfer", effect="side_effects")
    async def transfer(to: str, context: ToolContext) -> str:
        """Transfer money."""
        if context.elicited is None:
            raise InputNeeded(RequestHumanPrompt(prompt="Why?"), {})
        if "why" not in context.elicited.kept:
            kept = {"why": context.elicited.answer}
            raise InputNeeded(RequestHumanPrompt(prompt="How much?"), kept)
        return "done"

    async with running_agent(tmp_path, CALL, transfer) as agent:
        run_loop = await asked(agent)
        await answer(agent, run_loop, "zwibbelquast")
        short_term = agent.memory.short_term
        await until(
            lambda: (
                (state := short_term.state(run_loop)) is not None
                and state.awaiting is not None
                and state.awaiting.prompt == "How much?"
            )
        )
        await answer(agent, run_loop, "5")
        await rested(agent, run_loop)
        await agent.complete(run_loop)
        await agent.memory.archivist.drain()
        request = ForgetRequest(run_loop_ids=(run_loop,))
        preview = await agent.preview_forgetting(request)
        assert preview.confirm is not None
        await agent.forget(request, preview.confirm)
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"zwibbelquast" not in kept
