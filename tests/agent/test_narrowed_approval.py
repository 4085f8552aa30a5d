"""A yes that is remembered can be narrowed: to the very arguments, to a time; never widened."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent import Agent
from service.agent.human_input.narrowed_yes import narrow_standing
from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.approval_rules import NarrowedRule, Narrowing, in_milliseconds
from service.domain.history.events import Event, EventBody, RunLoopIdle, RunLoopStarted
from service.domain.history.fold import fold
from service.domain.history.human_input import InputReceived, InputRequired, Remember
from service.memory.journal.standing_approvals import StandingApproval
from tests.support.agent.agents import Answer, running_agent, sent
from tests.support.agent.heist import forget
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    request_id,
    rested,
    wanting,
)
from tests.support.memory.secrets import archived

pytestmark = pytest.mark.anyio

ALONE: dict[str, Any] = {"auto_classify": False}
EXACT = Narrowing(arguments=True)
HOUR = timedelta(hours=1)
ROCKET = wanting(launch_call("the rocket"))


def wanting_now(what: list[str]) -> Callable[..., Any]:
    """Wants the newest of these launched."""
    return lambda messages: wanting(launch_call(what[-1]))(messages)


async def is_asked(agent: Agent, message: str, loop_id: str | None = None) -> bool:
    events = await sent(agent, message, *([loop_id] if loop_id else []))
    return events[-1].type == "input.required"


async def yes(agent: Agent, remember: Remember, narrow: Narrowing) -> str:
    """What is asked about is allowed within limits; the id of the loop, which has rested then."""
    loop_id = await asked(agent)
    await agent.answer(loop_id, approved=True, remember=remember, narrow=narrow)
    await rested(agent, loop_id)
    return loop_id


def allowed_earlier(remember: Remember, *rules: NarrowedRule) -> tuple[EventBody, EventBody]:
    """As an answer stands in a journal, whenever it was given."""
    request = InputRequired(request_id="earlier", kind="approve", prompt="May it?")
    return request, InputReceived(
        request_id="earlier", approved=True, remember=remember, rules=rules
    )


# --- to arguments


@pytest.mark.slow
@pytest.mark.parametrize("remember", ["run_loop", "always"])
async def test_a_yes_to_just_these_arguments_covers_no_others_also_after_a_restart(
    tmp_path: Path, remember: Remember
) -> None:
    launches, what = Launches(), ["the rocket"]
    model = wanting_now(what)
    async with running_agent(tmp_path, model, launches.tool(), **ALONE) as agent:
        loop_id = await yes(agent, remember, EXACT)
        assert not await is_asked(agent, "once more", loop_id)
        assert await is_asked(agent, "elsewhere") is (remember == "run_loop")
    async with running_agent(tmp_path, model, launches.tool(), **ALONE) as agent:
        assert not await is_asked(agent, "after a restart", loop_id)
        what.append("the kite")
        assert await is_asked(agent, "something else", loop_id)
    assert "the kite" not in launches.launched


async def test_the_order_of_arguments_and_spaces_make_no_other_arguments(tmp_path: Path) -> None:
    rule = NarrowedRule(scope="pay", arguments='{"a": 1, "b": "茶"}', since=datetime.now(UTC))
    now = datetime.now(UTC)
    assert rule.covers('{ "b":"\\u8336", "a":1}', now)
    for other in ('{"a": 1.0, "b": "茶"}', '{"a": true, "b": "茶"}', '{"a": 1}', "[]", "", "{"):
        assert not rule.covers(other, now)


async def test_an_edited_call_is_covered_as_it_was_run(tmp_path: Path) -> None:
    launches, what = Launches(), ["the rocket"]
    async with running_agent(tmp_path, wanting_now(what), launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(
            loop_id, approved=True, arguments='{"what": "茶壶"}', remember="always", narrow=EXACT
        )
        await rested(agent, loop_id)
        assert await is_asked(agent, "the rocket again")
        what.append("茶壶")
        assert not await is_asked(agent, "and the teapot")


# --- to a time


@pytest.mark.parametrize("remember", ["run_loop", "always"])
async def test_a_yes_until_a_time_holds_until_then(tmp_path: Path, remember: Remember) -> None:
    launches = Launches()
    until = datetime.now(UTC) + HOUR
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await yes(agent, remember, Narrowing(until=until))
        assert not await is_asked(agent, "once more", loop_id)


async def test_a_rule_covers_nothing_before_it_was_given_nor_once_it_is_over() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rule = NarrowedRule(scope="launch", since=noon, until=noon + HOUR)
    minute = timedelta(minutes=1)
    moments = (noon - minute, noon, noon + HOUR - minute, noon + HOUR, noon + 24 * HOUR)
    assert [rule.covers("{}", each) for each in moments] == [False, True, True, False, False]


@pytest.mark.parametrize("hours", [(-2, -1), (1, 2)], ids=["over", "clock set back"])
@pytest.mark.parametrize("remember", ["run_loop", "always"])
async def test_outside_of_its_time_a_person_is_asked(
    tmp_path: Path, remember: Remember, hours: tuple[int, int]
) -> None:
    launches = Launches()
    since, until = (datetime.now(UTC) + each * HOUR for each in hours)
    given = StandingApproval("me", "launch", "launch", since, "", until=until)
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = (await sent(agent, "launch it"))[-1].run_loop_id
        await agent.answer(loop_id, approved=False)
        await rested(agent, loop_id)
        granting = [given] if remember == "always" else []
        await agent.memory.journal.append(
            loop_id, *allowed_earlier(remember, given.rule), granting=granting
        )
        state = agent.memory.short_term.state(loop_id)
        assert state is not None
        assert bool(state.allowed_narrowly) is (remember == "run_loop")
        await agent.memory.journal.append(loop_id, *allowed_earlier("run_loop"))
        assert await is_asked(agent, "and now", loop_id)
    assert launches.launched == []


async def test_what_was_over_once_stays_over_where_the_clock_is_set_back() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rule = NarrowedRule(scope="launch", since=noon, until=noon + HOUR)
    minutes = (0, 1, 2, 59, 60, 30)
    started = RunLoopStarted(goal="Launch it")
    bodies = (started, *allowed_earlier("run_loop", rule), *[RunLoopIdle()] * 3)
    left = []
    for count in range(3, len(bodies) + 1):
        events = [
            Event(seq=seq, at=noon + timedelta(minutes=at), owner="me", run_loop_id="a", body=body)
            for seq, (at, body) in enumerate(zip(minutes, bodies, strict=True), 1)
        ]
        state = fold(events[:count])
        assert state is not None
        left.append(state.allowed_narrowly)
    assert left == [(rule,), (rule,), (), ()]


async def test_what_a_later_version_narrowed_in_a_way_not_known_here_covers_nothing() -> None:
    since = datetime.now(UTC) - HOUR
    written = NarrowedRule(scope="launch", since=since).model_dump_json()
    later = NarrowedRule.model_validate_json(written[:-1] + ', "times": 3}')
    assert NarrowedRule.model_validate_json(written).covers("{}", datetime.now(UTC))
    assert not later.covers("{}", datetime.now(UTC))


async def test_an_older_version_finds_nothing_that_it_could_take_for_a_wider_yes(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool(), **ALONE) as agent:
        loop_id = await yes(agent, "always", EXACT)
        answers = await agent.memory.journal.read(run_loop_id=loop_id, kind="input.received")
        body = answers[0].body
        assert isinstance(body, InputReceived)
        assert body.scopes == ()
        assert [each.arguments for each in body.rules] == ['{"what": "the rocket"}']
        assert agent.memory.journal.standing_approvals.scopes("me") == frozenset()


# --- what is refused


@pytest.mark.parametrize(
    ("remember", "narrow", "words"),
    [
        (None, EXACT, "cannot be narrowed"),
        ("always", Narrowing(), "does not say by what"),
        ("always", Narrowing(until=datetime(2020, 1, 1, tzinfo=UTC)), "has passed"),
        ("run_loop", Narrowing(until=datetime(2020, 1, 1, tzinfo=UTC)), "has passed"),
    ],
)
async def test_a_narrowing_that_is_none_decides_nothing(
    tmp_path: Path, remember: Remember | None, narrow: Narrowing, words: str
) -> None:
    launches = Launches()
    async with running_agent(tmp_path, ROCKET, launches.tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        with pytest.raises(InvalidInputError, match=words):
            await agent.answer(loop_id, approved=True, remember=remember, narrow=narrow)
        assert (await agent.run_loop(loop_id)).status == "waiting_for_human_input"
    assert launches.launched == []


async def test_the_same_narrowed_answer_again_counts_once_and_a_wider_one_is_a_conflict(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        first = request_id(agent, loop_id)
        said: dict[str, Any] = {"approved": True, "remember": "always", "request_id": first}
        await agent.answer(loop_id, narrow=EXACT, **said)
        await agent.answer(loop_id, narrow=EXACT, **said)
        with pytest.raises(ConflictError):
            await agent.answer(loop_id, **said)
        (standing,) = agent.memory.journal.standing_approvals.of("me")
        assert standing.is_narrowed


# --- what stands is narrowed later


async def test_what_stands_can_be_narrowed_but_never_widened(tmp_path: Path) -> None:
    launches, what = Launches(), ["the rocket"]
    tomorrow = datetime.now(UTC) + 24 * HOUR
    async with running_agent(tmp_path, wanting_now(what), launches.tool(), **ALONE) as agent:
        journal = agent.memory.journal
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
        (narrower,) = await narrow_standing(journal, "launch", EXACT, owner="me")
        assert narrower.arguments == '{"what": "the rocket"}'
        await narrow_standing(journal, narrower.id, Narrowing(until=tomorrow), owner="me")
        for wider in (EXACT, Narrowing(until=tomorrow + HOUR), Narrowing()):
            with pytest.raises(InvalidInputError):
                await narrow_standing(journal, "launch", wider, owner="me")
        with pytest.raises(NotFoundError):
            await narrow_standing(journal, "launch", EXACT, owner="ada")
    async with running_agent(tmp_path, wanting_now(what), launches.tool(), **ALONE) as agent:
        (standing,) = agent.memory.journal.standing_approvals.of("me")
        assert (standing.arguments, standing.id) == ('{"what": "the rocket"}', narrower.id)
        assert standing.until is not None
        assert abs(standing.until - tomorrow) < timedelta(milliseconds=2)
        assert not await is_asked(agent, "the rocket again")
        what.append("the kite")
        assert await is_asked(agent, "the kite")
        await agent.memory.journal.standing_approvals.revoke(standing.id, owner="me")
        what.append("the rocket")
        assert await is_asked(agent, "the rocket, once it was revoked")


async def test_of_two_of_one_scope_the_one_that_is_meant_has_to_be_said(tmp_path: Path) -> None:
    model = wanting(launch_call("the rocket"), launch_call("the kite", 1))
    soon = Narrowing(until=datetime.now(UTC) + HOUR)
    async with running_agent(tmp_path, model, Launches().tool(), **ALONE) as agent:
        await yes(agent, "always", EXACT)
        journal = agent.memory.journal
        first, second = journal.standing_approvals.of("me")
        with pytest.raises(InvalidInputError, match="2 approvals"):
            await narrow_standing(journal, "launch", soon, owner="me")
        await narrow_standing(journal, first.id, soon, owner="me")
        assert [each.until is None for each in journal.standing_approvals.of("me")].count(True) == 1
        await journal.standing_approvals.revoke("launch", owner="me")  # all of the scope
        assert journal.standing_approvals.of("me") == ()
        assert second.id != first.id


async def test_what_was_revoked_meanwhile_is_not_brought_back_by_narrowing(tmp_path: Path) -> None:
    async with running_agent(tmp_path, ROCKET, Launches().tool(), **ALONE) as agent:
        loop_id = await asked(agent)
        await agent.answer(loop_id, approved=True, remember="always")
        await rested(agent, loop_id)
        standing = agent.memory.journal.standing_approvals
        (approval,) = standing.of("me")
        await standing.revoke("launch", owner="me")
        with pytest.raises(NotFoundError):
            await standing.narrow(approval, lambda each: [each])
        assert standing.of("me") == ()


# --- told, forked, forgotten


async def test_the_audit_trail_tells_the_rule_by_which_a_call_ran(tmp_path: Path) -> None:
    until = in_milliseconds(datetime.now(UTC) + HOUR)
    async with running_agent(tmp_path, ROCKET, Launches().tool(), **ALONE) as agent:
        loop_id = await yes(agent, "run_loop", EXACT)
        await sent(agent, "once more", loop_id)
        await yes(agent, "always", Narrowing(arguments=True, until=until))
        await sent(agent, "and a third")
        page = await agent.memory.journal.audit.page(owner="me")
    always, _, run_loop, _ = [each.grant for each in page.entries]
    assert run_loop is not None
    assert run_loop.rule == "launch, with just these arguments"
    assert always is not None
    assert always.kind == "always"
    assert always.narrowed == Narrowing(arguments=True, until=until)
    assert always.rule is not None
    assert always.rule.startswith("launch, with just these arguments, until 20")


async def test_a_fork_keeps_what_was_allowed_within_limits(tmp_path: Path) -> None:
    what = ["the rocket"]
    async with running_agent(tmp_path, wanting_now(what), Launches().tool(), **ALONE) as agent:
        loop_id = await yes(agent, "run_loop", EXACT)
        fork = await agent.fork(loop_id)
        assert not await is_asked(agent, "once more", fork.id)
        what.append("the kite")
        assert await is_asked(agent, "something else", fork.id)


def locker(messages: Sequence[Message]) -> Answer:
    """Tries what it has heard once it is asked to, and tells the results."""
    if messages[-1].text.startswith("The locker"):
        return "I see."
    return wanting(launch_call("58213"))(messages)


@pytest.mark.parametrize("narrowed_later", [False, True])
async def test_words_that_are_forgotten_are_in_no_rule(
    tmp_path: Path, narrowed_later: bool
) -> None:
    async with running_agent(tmp_path, locker, Launches().tool(), **ALONE) as agent:
        loop_id = (await sent(agent, "The locker opens with 58213."))[-1].run_loop_id
        await sent(agent, "Try it", loop_id)
        narrow = None if narrowed_later else EXACT
        await agent.answer(loop_id, approved=True, remember="always", narrow=narrow)
        await rested(agent, loop_id)
        if narrowed_later:  # the yes itself says nothing of the words then
            await narrow_standing(agent.memory.journal, "launch", EXACT, owner="me")
        await sent(agent, "The locker is blue", loop_id)
        await archived(agent.memory)
        assert "58213" in str(agent.memory.journal.standing_approvals.of("me"))
        first = AnchorRef(loop_id, 0, 0)
        await forget(agent, ForgetRequest(anchors=(first,), with_answers=True))
        assert agent.memory.journal.standing_approvals.of("me") == ()
        assert "blue" in str(await agent.memory.journal.read(run_loop_id=loop_id))
        assert "58213" not in str(await agent.memory.journal.read(run_loop_id=loop_id))
        with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
            assert db.execute("SELECT * FROM narrowed_approvals").fetchall() == []
