"""While nobody says anything, no model is asked: hours pass by a clock that jumps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.consolidation.consolidation_worker import ConsolidationOptions
from service.domain.conversation.messages import Message
from service.domain.errors import LLMStatusError
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, call, running_agent, sent
from tests.support.agent.consolidating import NotingLLM, facts
from tests.support.agent.jumping_clock import run_jumping

HOURS = 6


@tool(effect="side_effects", needs_approval=True)
async def send_mail() -> str:
    """Send a mail."""
    return "sent"


def respond(messages: Sequence[Message]) -> Answer:
    match messages[-1].text:
        case "Send a mail":
            return [call("send_mail")]
        case "Fail":
            return [LLMStatusError(401, "no key")]
        case text:
            return f"You said: {text}"


@pytest.mark.slow
@pytest.mark.parametrize("writes_notes", [False, True])
def test_hours_of_rest_ask_no_model(tmp_path: Path, writes_notes: bool) -> None:
    llm = NotingLLM(facts)
    llm.respond = respond
    notes = ConsolidationOptions(min_new_segments=1) if writes_notes else None

    async def rest() -> None:
        async with running_agent(
            tmp_path, llm, send_mail, auto_classify=False, consolidation=notes
        ) as agent:
            for message in ("Ada lives in Basel.", "小明住在杭州。", "Send a mail", "Fail"):
                await sent(agent, message)
            statuses = [state.status for state in agent.memory.short_term.states()]
            assert sorted(statuses) == ["idle", "idle", "waiting_for_human_input"]
            asked = len(llm.calls)
            began = anyio.current_time()
            await anyio.sleep(1800)
            # Those that were answered are over, and what is new in memory was read, once.
            assert [each.status for each in agent.memory.short_term.states()] == [
                "waiting_for_human_input"
            ]
            assert bool(llm.asked) is writes_notes
            noted = len(llm.asked)
            await anyio.sleep(HOURS * 3600)
            assert anyio.current_time() - began > HOURS * 3600
            assert len(llm.calls) == asked == 4
            assert len(llm.asked) == noted

    run_jumping(rest)
