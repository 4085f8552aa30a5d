"""Where it is not sure, the router asks which topic a message belongs to: nothing is lost, nothing
is done before the answer, and nothing hangs."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.agent.callbacks import Callbacks
from service.agent.human_input.open_questions import Question
from service.domain.errors import ConflictError
from service.domain.history.events import RouteDecided
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import answer_of, request_of, sent, types, until
from tests.support.agent.asking_where import (
    TRIP,
    VAGUE,
    asked,
    at_rest,
    following,
    house,
    trip_of,
    waits,
)
from tests.support.agent.moves import answers, heard, whole

pytestmark = pytest.mark.anyio


async def test_a_message_that_is_clear_enough_is_not_asked_about(tmp_path: Path) -> None:
    async with house(tmp_path, router=RouterOptions(ask_below=0, use_llm=False)) as agent:
        await trip_of(agent)
        events = await sent(agent, VAGUE)
        assert events[-1].type == "run_loop.idle"


async def test_the_question_stands_before_any_work(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        events = await sent(agent, VAGUE)
        assert types(events) == [
            "run_loop.started",
            "message.received",
            "route.decided",
            "input.required",
        ]
        request = request_of(events)
        assert request.about == "route"
        assert request.kind == "select"
        assert request.options == (TRIP, "something new")
        assert request.run_loop_ids == (trip,)
        route = next(e.body.route for e in events if isinstance(e.body, RouteDecided))
        assert (route.method, route.decision) == ("asked", "new")
        assert route.candidates


async def test_a_message_in_chinese_is_asked_about_in_chinese(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await sent(agent, "规划去里斯本的周末")
        loop, request = await asked(agent, "那要多少钱？")
        assert request.prompt == "这说的是哪件事？"
        assert request.options == ("规划去里斯本的周末", "一件新的事")
        went = await agent.answer(loop, choices=["规划去里斯本的周末"])
        await at_rest(agent, went)
        assert heard(await whole(agent, went)) == ["规划去里斯本的周末", "那要多少钱？"]


async def test_something_new_lets_its_loop_go_on(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        loop, _ = await asked(agent)
        assert await agent.answer(loop, choices=["something new"]) == loop
        await at_rest(agent, loop)
        state = await whole(agent, loop)
        assert heard(state) == [VAGUE]
        assert answers(state) == [f"You said: {VAGUE}"]


async def test_the_message_goes_to_the_chosen_loop_and_is_answered_there(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, _ = await asked(agent)
        assert await agent.answer(loop, choices=[TRIP]) == trip
        await at_rest(agent, trip)
        state = await whole(agent, trip)
        assert heard(state) == [TRIP, VAGUE]
        left = await whole(agent, loop)
        assert left.status == "cancelled"
        ended = (await agent.memory.journal.read(run_loop_id=loop))[-1]
        assert trip in ended.body.reason  # type: ignore[union-attr]


async def test_whoever_followed_the_message_gets_its_answer_from_the_chosen_loop(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        receipt = await agent.accept(VAGUE)
        first = await following(agent, receipt.message_id)
        await agent.answer(first[-1].run_loop_id, choices=[TRIP])
        then = await following(agent, receipt.message_id)
        assert then[-1].run_loop_id == trip
        assert answer_of(then) == f"You said: {VAGUE}"


async def test_who_asks_with_callbacks_is_asked_and_gets_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        chosen = Callbacks(on_input_required=lambda request: request.options[0])
        assert await agent.ask(VAGUE, callbacks=chosen) == f"You said: {VAGUE}"
        new = Callbacks(on_input_required=lambda request: request.options[-1])
        assert await agent.ask("哪个好？", callbacks=new) == "You said: 哪个好？"


async def test_it_is_among_the_open_questions_and_can_be_answered_from_there(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        seen: list[tuple[Question, ...]] = []
        subscription = agent.questions.subscribe(on_next=seen.append)
        loop, request = await asked(agent)
        await until(lambda: seen and seen[-1])
        (open_question,) = seen[-1]
        assert (open_question.run_loop_id, open_question.request) == (loop, request)
        await anyio.to_thread.run_sync(open_question.answer(choices=[TRIP]).result, 10)
        await until(lambda: not seen[-1])
        await at_rest(agent, trip)
        assert heard(await whole(agent, trip)) == [TRIP, VAGUE]
        subscription.dispose()


async def test_whoever_goes_on_talking_there_drops_the_question(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        loop, _ = await asked(agent)
        events = await sent(agent, "for two people", loop)
        assert answer_of(events) == "You said: for two people"
        state = await whole(agent, loop)
        assert state.status == "idle"
        assert heard(state) == [f"{VAGUE}\n\nfor two people"]
        with pytest.raises(ConflictError):
            await agent.answer(loop, choices=[TRIP])


async def test_a_person_who_never_answers_can_talk_about_other_things(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, _ = await asked(agent)
        assert answer_of(await sent(agent, "Thanks", trip)) == "You said: Thanks"
        assert [state.id for state in waits(agent)] == [loop]
        await agent.cancel(loop)
        assert not waits(agent)


async def test_an_urgent_message_is_not_asked_about(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        assert (await sent(agent, VAGUE, mode="interrupt"))[-1].type == "run_loop.idle"
