"""Schedules in an agent at work: told without a model, done with what was granted, each once."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.run_loops import RunLoop
from service.memory.memory import Memory
from service.schedules.recurrence import Timing
from service.schedules.schedule import Schedule
from service.tools.builtins.schedule_tools import schedule_tools
from tests.support.agent.agents import Answer, echo, request_of, running_agent, sent, until
from tests.support.agent.mortal import arm
from tests.support.agent.scheduling import due_now, opened
from tests.support.agent.waiting import Launches, launch_call, rested, tool_call, wanting

pytestmark = pytest.mark.anyio

LAUNCHES = wanting(launch_call("the rocket"))


def refuses(messages: Sequence[Message]) -> Answer:
    raise AssertionError("no model is asked")


async def test_a_reminder_needs_no_model_and_the_person_can_answer_it(tmp_path: Path) -> None:
    answering = False

    def respond(messages: Sequence[Message]) -> Answer:
        assert answering, "no model is asked"
        return echo(messages)

    async with running_agent(tmp_path, respond, auto_classify=False) as agent:
        await due_now(agent, "call mum")
        run_loop = await agent.run_loop(await opened(agent))
        assert run_loop.status == "idle"
        [told] = run_loop.iterations
        assert (told.user_message, told.response) == ("call mum", "Reminder: call mum")
        answering = True
        await sent(agent, "done", run_loop.id)
        assert (await agent.run_loop(run_loop.id)).iterations[-1].response == "You said: done"


async def test_a_task_is_done_as_a_message_of_its_owner(tmp_path: Path) -> None:
    async with running_agent(tmp_path, echo) as agent:
        await due_now(agent, "sum up the news", "task")
        run_loop = await rested(agent, await opened(agent))
        assert run_loop.goal == "sum up the news"
        assert run_loop.iterations[0].response == "You said: sum up the news"
        assert run_loop.iterations[0].metadata["schedule"]["id"] == "s"


async def test_a_task_may_do_unasked_only_what_was_granted_to_it(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, LAUNCHES, launches.tool(), auto_classify=False) as agent:
        # Whatever its owner has allowed elsewhere for good:
        events = await sent(agent, "launch it")
        await agent.answer(events[0].run_loop_id, approved=True, remember="always")
        await rested(agent, events[0].run_loop_id)
        await due_now(agent, "launch it", "task", name="no grants")
        waiting = await opened(agent, "no grants")
        await until(lambda: agent.memory.short_term.state(waiting).awaiting)  # type: ignore[union-attr]
        await due_now(agent, "launch it", "task", "launch", name="granted")
        await rested(agent, await opened(agent, "granted"))
        assert launches.launched == ["the rocket"] * 2
    async with running_agent(tmp_path, LAUNCHES, launches.tool(), auto_classify=False) as agent:
        assert (await agent.run_loop(waiting)).status == "waiting_for_human_input"
        await agent.answer(waiting, approved=True)
        await rested(agent, waiting)
        assert launches.launched == ["the rocket"] * 3


async def test_what_was_granted_to_a_schedule_goes_with_it(tmp_path: Path) -> None:
    launches = Launches()
    go = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        asked = LAUNCHES(messages)
        return asked if isinstance(asked, str) else [go, *asked]

    async with running_agent(tmp_path, respond, launches.tool(), auto_classify=False) as agent:
        await due_now(agent, "launch it", "task", "launch")
        run_loop_id = await opened(agent)
        await agent.schedules.remove("s")
        go.set()
        await until(lambda: agent.memory.short_term.state(run_loop_id).awaiting)  # type: ignore[union-attr]
        assert launches.launched == []
        events = await sent(agent, "launch it", "new")
        await agent.answer(events[0].run_loop_id, approved=True, remember="always")
        await rested(agent, events[0].run_loop_id)
        assert len(launches.launched) == 1
    # Nothing is left of the schedule, and what it began is still not trusted as its owner is.
    call_again = wanting(launch_call("the rocket"), launch_call("the boat", 1))
    async with running_agent(tmp_path, call_again, launches.tool(), auto_classify=False) as agent:
        await agent.answer(run_loop_id, approved=False)
        await rested(agent, run_loop_id)
        await sent(agent, "launch it again", run_loop_id)
        assert (await agent.run_loop(run_loop_id)).status == "waiting_for_human_input"
        assert len(launches.launched) == 1


async def test_grants_are_tools_that_there_are_and_for_tasks_alone(tmp_path: Path) -> None:
    async with running_agent(tmp_path, echo, Launches().tool()) as agent:
        for kind, grant, why in (
            ("task", "lunch", "there is no tool 'lunch'. Did you mean"),
            ("reminder", "launch", "a reminder does nothing"),
        ):
            with pytest.raises(InvalidInputError, match=why):
                await agent.schedules.add(
                    "x",
                    "in 5 minutes",
                    kind=kind,  # type: ignore[arg-type]
                    grants=[grant],
                )
        assert agent.schedules.all() == ()


async def test_the_model_asks_before_it_sets_one_and_shows_the_next_times(tmp_path: Path) -> None:
    call = tool_call("remind_me", what="water the plants", when="every day at 8")
    async with running_agent(tmp_path, wanting(call)) as agent:
        for each in schedule_tools(agent.memory.journal.schedules, agent.memory.load):
            agent.tools.register(each)
        events = await sent(agent, "remind me to water the plants every day at 8")
        [shown] = request_of(events).descriptions.values()
        assert shown.startswith("Reminder: “water the plants”, every day at 08:00")
        assert shown.count(" 08:00") == 4  # the rule, and three times
        assert agent.schedules.all() == ()
        await agent.answer(events[0].run_loop_id, approved=True)
        await rested(agent, events[0].run_loop_id)
        [schedule] = agent.schedules.all()
        assert schedule.run_loop_id == events[0].run_loop_id


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"what": "call mum", "when": "at 3"}, "in the morning or in the afternoon"),
        ({"what": "call mum", "when": "2020-01-01 09:00"}, "has passed"),
        ({"what": "  ", "when": "tomorrow at 9"}, "`what` is empty"),
        ({"when": "tomorrow at 9"}, "what"),
    ],
)
async def test_a_schedule_that_cannot_be_set_asks_nobody(
    tmp_path: Path, arguments: dict[str, str], why: str
) -> None:
    async with running_agent(tmp_path, wanting(tool_call("remind_me", **arguments))) as agent:
        for each in schedule_tools(agent.memory.journal.schedules, agent.memory.load):
            agent.tools.register(each)
        run_loop_id = (await sent(agent, "remind me"))[0].run_loop_id
        await rested(agent, run_loop_id)
        run_loop = await agent.run_loop(run_loop_id)
        assert run_loop.status == "idle"
        [result] = [each for turn in run_loop.iterations for each in turn.tool_results]
        assert result.is_error
        assert why in result.content


async def test_what_is_paused_is_not_due_and_what_it_missed_is_skipped(tmp_path: Path) -> None:
    async with running_agent(tmp_path, refuses) as agent:
        soon = Timing(start=datetime.now(UTC) + timedelta(milliseconds=200), zone="UTC")
        store = agent.memory.journal.schedules
        await store.add(Schedule("s", "me", "reminder", "stretch", soon, soon.start))
        await agent.schedules.pause("s")
        await until(lambda: datetime.now(UTC) > soon.start)
        with pytest.raises(Exception, match="while it was paused"):
            await agent.schedules.resume("s")
        [skipped] = await agent.schedules.occurrences("s")
        assert (skipped.state, skipped.reason) == ("skipped", "paused")
        assert await agent.schedules.notices() == []


async def test_run_now_does_it_now_and_leaves_its_time_as_it_is(tmp_path: Path) -> None:
    async with running_agent(tmp_path, refuses) as agent:
        schedule = await agent.schedules.add("stretch", "every day at 9")
        due = agent.schedules.upcoming(schedule)
        first = await agent.schedules.run_now(schedule.id)
        second = await agent.schedules.run_now(schedule.id)
        assert first != second
        assert (await agent.run_loop(first)).iterations[0].response == "Reminder: stretch"
        assert agent.schedules.upcoming(schedule) == due
        assert len(due) == 3


async def test_what_was_told_is_told_to_a_client_once(tmp_path: Path) -> None:
    async with running_agent(tmp_path, refuses) as agent:
        await due_now(agent, "call mum")
        run_loop_id = await opened(agent)
        assert await agent.schedules.notices(owner="you") == []
        [notice] = await agent.schedules.notices()
        assert (notice.text, notice.run_loop_id) == ("Reminder: call mum", run_loop_id)
        await agent.schedules.seen([run_loop_id], owner="you")
        assert len(await agent.schedules.notices()) == 1
        await agent.schedules.seen([run_loop_id])
        assert await agent.schedules.notices() == []


async def test_owners_see_their_own_alone(tmp_path: Path) -> None:
    async with running_agent(tmp_path, refuses) as agent:
        mine = await agent.schedules.add("stretch", "every day at 9")
        for action in (agent.schedules.pause, agent.schedules.remove, agent.schedules.run_now):
            with pytest.raises(NotFoundError):
                await action(mine.id, owner="you")
        assert agent.schedules.all(owner="you") == ()
        assert agent.schedules.all() == (mine,)


async def test_a_schedule_is_forgotten_with_the_run_loop_in_which_it_was_set(
    tmp_path: Path,
) -> None:
    call = tool_call("remind_me", what="buy zwibbel", when="every day at 8")
    async with running_agent(tmp_path, wanting(call), linger_seconds=0) as agent:
        for each in schedule_tools(agent.memory.journal.schedules, agent.memory.load):
            agent.tools.register(each)
        events = await sent(agent, "remind me to buy zwibbel every day at 8")
        run_loop_id = events[0].run_loop_id
        await agent.answer(run_loop_id, approved=True)
        await until(lambda: agent.memory.short_term.state(run_loop_id) is None)
        request = ForgetRequest(run_loop_ids=(run_loop_id,))
        preview = await agent.preview_forgetting(request)
        assert preview.confirm is not None
        receipt = await agent.forget(request, preview.confirm)
        assert receipt.removed.schedules == 1
        assert agent.schedules.all() == ()


async def test_a_schedule_is_forgotten_with_the_words_in_which_it_was_set(tmp_path: Path) -> None:
    call = tool_call("remind_me", what="buy zwibbel", when="every day at 8")
    asks_for_it = wanting(call)

    def respond(messages: Sequence[Message]) -> Answer:
        return asks_for_it(messages) if "zwibbel" in str(messages) else "Hello."

    async with running_agent(tmp_path, respond, auto_classify=False) as agent:
        for each in schedule_tools(agent.memory.journal.schedules, agent.memory.load):
            agent.tools.register(each)
        run_loop_id = (await sent(agent, "Good morning"))[0].run_loop_id
        await sent(agent, "remind me to buy zwibbel every day at 8", run_loop_id)
        await agent.answer(run_loop_id, approved=True)
        await rested(agent, run_loop_id)
        assert len(agent.schedules.all()) == 1
        for iteration, left in ((0, 1), (1, 0)):
            request = ForgetRequest(anchors=(AnchorRef(run_loop_id, iteration, 0),))
            preview = await agent.preview_forgetting(request)
            assert preview.confirm is not None, preview.notice
            assert [each.goes for each in preview.schedules] == [True] * (1 - left)
            receipt = await agent.forget(request, preview.confirm)
            assert len(agent.schedules.all()) == left
            assert receipt.removed.schedules == 1 - left


async def test_forgetting_what_a_schedule_told_names_the_schedule_which_stays(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, refuses) as agent:
        schedule = await agent.schedules.add("buy zwibbel", "every day at 8")
        run_loop_id = await agent.schedules.run_now(schedule.id)
        await agent.complete(run_loop_id)
        request = ForgetRequest(run_loop_ids=(run_loop_id,))
        preview = await agent.preview_forgetting(request)
        [mentioned] = preview.schedules
        assert (mentioned.id, mentioned.what, mentioned.goes) == (
            schedule.id,
            "buy zwibbel",
            False,
        )
        assert preview.confirm is not None
        await agent.forget(request, preview.confirm)
        assert agent.schedules.all() == (schedule,)
        [_, ran] = sorted(
            await agent.schedules.occurrences(schedule.id), key=lambda each: each.state
        )
        assert (ran.state, ran.run_loop_id) == ("ran", None)


async def test_forgetting_everything_forgets_all_schedules(tmp_path: Path) -> None:
    async with running_agent(tmp_path, refuses) as agent:
        await agent.schedules.add("buy zwibbel", "every day at 8")
        other = await agent.schedules.add("mine stays", "every day at 8", owner="you")
        request = ForgetRequest(everything=True)
        preview = await agent.preview_forgetting(request)
        assert preview.confirm is not None
        await agent.forget(request, preview.confirm)
        assert agent.schedules.all() == ()
        assert agent.schedules.all(owner="you") == (other,)


forkserver = multiprocessing.get_context("forkserver")


def life(folder: Path, die_at: int) -> None:
    arm(die_at, "before")
    anyio.run(_see_both_through, folder)


async def _see_both_through(folder: Path) -> None:
    async with running_agent(folder, echo) as agent:
        for name, kind in (("a", "reminder"), ("b", "task")):
            await due_now(agent, f"water {name}", kind, name=name)  # type: ignore[arg-type]
        for name in "ab":
            await rested(agent, await opened(agent, name))


async def _run_loops(folder: Path) -> list[RunLoop]:
    async with Memory(folder, None) as memory:
        return [state.run_loop() for state in memory.short_term.states()]


@pytest.mark.slow
def test_two_of_one_moment_killed_at_any_commit_are_each_told_once(tmp_path: Path) -> None:
    died = 0
    while True:
        folder = tmp_path / str(died)
        process = forkserver.Process(target=life, args=(folder, died + 1))
        process.start()
        process.join(30)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        anyio.run(_see_both_through, folder)
        loops = anyio.run(_run_loops, folder)
        assert sorted(each.goal for each in loops) == ["water a", "water b"]
        assert sorted(str(each.iterations[0].response) for each in loops) == [
            "Reminder: water a",
            "You said: water b",
        ]
        died += 1
    assert died >= 4
