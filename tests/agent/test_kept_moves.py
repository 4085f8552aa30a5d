"""A move hands the words over: the run loop that they left refers to where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.history.events import Event, MessageReceived, RunLoopStarted
from service.domain.history.fold import fold
from tests.support.agent.agents import sent
from tests.support.agent.heist import SECRETS, house, moved
from tests.support.agent.moves import heard, whole
from tests.support.agent.moving import message_ids, opened
from tests.support.memory import journal_file

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def rows(agent: Agent, run_loop_id: str, kind: str = "") -> str:
    """All of them but for the first, which tells what the run loop was about."""
    path = agent.memory.folder / "journal.sqlite3"
    query = "SELECT body FROM events WHERE run_loop_id = ? AND instr(body, ?) = 1 ORDER BY seq"
    matching = journal_file.rows(path, query, (run_loop_id, f'{{"type":"{kind}'))
    return "\n".join(
        row[0] for row in matching if not row[0].startswith('{"type":"run_loop.started"')
    )


async def events(agent: Agent, run_loop_id: str, before: int) -> list[Event]:
    all_events = await agent.memory.journal.read(run_loop_id=run_loop_id)
    return [event for event in all_events if (event.seq or 0) <= before]


async def test_the_words_stand_in_the_run_loop_that_they_came_to(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        for words in SECRETS:
            assert words not in rows(agent, garden)
            assert words in rows(agent, bank)
    async with house(tmp_path) as agent:
        assert heard(await whole(agent, garden))[0] == "How do tulips grow?"


async def test_what_happened_before_is_read_as_before(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden = await opened(agent, "How do tulips grow?")
        await sent(agent, "Plan the heist.", garden)
        last = agent.memory.journal.last_seq
        before = await events(agent, garden, last)
        state = fold(before)
        bank = (await agent.reroute(garden)).to_run_loop_id
        assert "heist" not in rows(agent, garden)
        assert await events(agent, garden, last) == before
        assert await agent.replay(garden, at=last) == state
        early = await agent.fork(garden, at=last)
        assert heard(await whole(agent, early.id))[1] == "Plan the heist."
        assert "heist" not in rows(agent, early.id)
        assert "heist" in rows(agent, bank)


async def test_undone_the_words_are_back_and_stand_nowhere_else(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden = await opened(agent, "How do tulips grow?")
        await sent(agent, "Plan the heist.", garden)
        bank = await opened(agent, "What is a bank?")
        for _ in range(3):
            await agent.reroute(garden, to=bank)
            assert "Plan the heist." not in rows(agent, garden)
            await agent.undo_reroute(garden)
            assert "Plan the heist." not in rows(agent, bank)
        assert rows(agent, garden, "message.received").count("Plan the heist.") == 1
        assert heard(await whole(agent, garden))[-2:] == ["Plan the heist.", None]


async def test_a_message_that_comes_otherwise_there_is_told_here_as_it_came(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        bank = await opened(agent, "What is a bank?")
        journal = agent.memory.journal
        late = MessageReceived(
            message_id="late",
            message=Message.user("Plan the “heist” 在十月."),
            metadata={"by": "Ombrelune"},
            mode="followup",
        )
        first = MessageReceived(message_id="first", message=Message.user("How do tulips grow?"))
        opening = RunLoopStarted(goal="How do tulips grow?")
        await journal.append("garden", opening, first, late, owner="me")
        before = await events(agent, "garden", journal.last_seq)
        await agent.reroute("garden", message_id="late", to=bank)
        assert "late" in await message_ids(agent, bank)
        assert "heist" not in rows(agent, "garden")
        assert "Ombrelune" not in rows(agent, "garden")
        assert await events(agent, "garden", before[-1].seq or 0) == before
