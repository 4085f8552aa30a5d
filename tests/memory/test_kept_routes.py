"""What the router tells of other run loops is not kept, but told of those as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import EventBody, MessageReceived, RouteDecided, RunLoopStarted
from service.domain.history.human_input import InputRequired
from service.domain.routes import Route, RouteCandidate, goal_as_named
from service.memory.memory import Memory
from service.routing.clarification import question
from tests.support.memory import journal_file
from tests.support.memory.secrets import Loop, forget, record_exchange, working_memory

GARDEN = "Plant tulips\nby the “shed” 在十月 before the frost comes, and crocuses around them."
SAME = "Mend the roof"
pytestmark = pytest.mark.anyio


def route(**more: object) -> Route:
    goal = goal_as_named(GARDEN)
    given = {
        "decision": "join",
        "run_loop_id": "garden",
        "confidence": 0.6,
        "method": "words",
        "reason": f"it goes on with “{goal}”: it shares words with what was said there",
        "candidates": (
            RouteCandidate(run_loop_id="garden", goal=goal, probability=0.6),
            RouteCandidate(run_loop_id="roof", goal=SAME, probability=0.2),
            RouteCandidate(run_loop_id="roof2", goal=SAME, probability=0.1),
        ),
        "new_probability": 0.1,
    }
    return Route.model_validate({**given, **more})


async def decide(memory: Memory) -> tuple[RouteDecided, InputRequired]:
    """Three run loops, and another one that holds a decision between them, and a question."""
    for run_loop_id, goal in (("garden", GARDEN), ("roof", SAME), ("roof2", SAME)):
        await record_exchange(memory, run_loop_id, goal, "Yes.")
    decided, asked = RouteDecided(message_id="m", route=route()), question(route(), "And then?")
    received = MessageReceived(message_id="m", message=Message.user("And then?"))
    opening = RunLoopStarted(goal="And then?")
    await Loop(memory, "fourth").add(opening, received, decided, asked)
    return decided, asked


async def bodies(memory: Memory) -> list[EventBody]:
    return [event.body for event in await memory.journal.read(run_loop_id="fourth")][2:4]


def rows(memory: Memory) -> str:
    query = "SELECT body FROM events WHERE run_loop_id = 'fourth'"
    return "\n".join(row[0] for row in journal_file.rows(memory.folder / "journal.sqlite3", query))


async def test_the_rows_hold_ids_and_whoever_reads_them_is_told_the_goals(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        assert await decide(memory) == tuple(await bodies(memory))
        last = await memory.journal.decided_last(["fourth"])
        assert last["fourth"] == (await bodies(memory))[:1]
        for words in ("tulips", "shed", "十月", SAME):
            assert words not in rows(memory)


async def test_after_a_restart_the_question_is_the_same(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        _, asked = await decide(memory)
    async with working_memory(tmp_path) as memory:
        state = memory.short_term.state("fourth")
        assert state is not None
        assert state.awaiting == asked
        assert asked.options[1:3] == (f"{SAME} · roof", f"{SAME} · roof2")


async def test_a_goal_that_was_forgotten_is_shown_as_the_mark_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await decide(memory)
        before = rows(memory)
        request = ForgetRequest(run_loop_ids=("garden", "roof2"))
        preview = await memory.forgetting.preview(request, owner="me")
        assert [(each.run_loop_id, each.kinds) for each in preview.copies] == [
            ("fourth", ("quoted",))
        ]
        receipt = await forget(memory, request)
        assert receipt.removed.rewritten == 0
        assert rows(memory) == before
        state = memory.short_term.state("fourth")
        assert state is not None
        decided, asked = await bodies(memory)
        assert isinstance(decided, RouteDecided)
        assert decided.route.reason == (
            f"it goes on with “{FORGOTTEN}”: it shares words with what was said there"
        )
        assert [each.goal for each in decided.route.candidates] == [FORGOTTEN, SAME, FORGOTTEN]
        assert state.awaiting == asked
        assert isinstance(asked, InputRequired)
        assert asked.options == (
            FORGOTTEN,
            f"{SAME} · roof",
            f"{FORGOTTEN} · roof2",
            "something new",
        )


async def test_nobody_is_told_what_the_run_loops_of_others_are_about(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "garden", GARDEN, "Yes.", owner="somebody else")
        decided = RouteDecided(message_id="m", route=route(candidates=route().candidates[:1]))
        await Loop(memory, "mine").add(RunLoopStarted(goal="And then?"), decided)
        _, read = (event.body for event in await memory.journal.read(run_loop_id="mine"))
        assert isinstance(read, RouteDecided)
        assert read.route.candidates[0].goal == FORGOTTEN
        assert "tulips" not in read.route.reason
