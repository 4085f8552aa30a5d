"""Where it is not sure, the router asks which matter a message belongs to: nothing is lost, nothing
is done before the answer, and nothing hangs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.callbacks import Callbacks
from service.agent.questions import Question
from service.agent.routing.asking import question, rather_asked
from service.agent.routing.corrections import labelled_routes
from service.agent.routing.options import RouterOptions
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.events import Event, InputRequired, RouteDecided
from service.domain.forgetting import FORGOTTEN, ForgetRequest
from service.domain.routes import Route, RouteCandidate
from service.domain.state import RunLoopState
from tests.agent.moves import answers, heard, whole
from tests.agent.support import answer_of, echo, request_of, running_agent, sent, types, until
from tests.memory.forgetting_support import archived, finished, traces
from tests.memory.remembering import WordEmbedder

pytestmark = pytest.mark.anyio

ALWAYS = RouterOptions(ask_below=1, use_llm=False)
TRIP = "Plan a weekend in Lisbon"
VAGUE = "and what does it cost?"


@asynccontextmanager
async def house(folder: Path, **options: Any) -> AsyncIterator[Agent]:
    async with running_agent(folder, echo, **{"router": ALWAYS, **options}) as agent:
        yield agent


async def trip_of(agent: Agent) -> str:
    """The first matter: with nothing to choose from, nobody is asked."""
    events = await sent(agent, TRIP)
    assert events[-1].type == "run_loop.idle"
    return events[-1].run_loop_id


async def asked(agent: Agent, words: str = VAGUE) -> tuple[str, InputRequired]:
    """The loop that waits, and what it asks."""
    events = await sent(agent, words)
    return events[-1].run_loop_id, request_of(events)


async def following(agent: Agent, message_id: str) -> list[Event]:
    with agent.reader() as reader:
        return [event async for event in agent.follow(message_id, reader=reader)]


async def at_rest(agent: Agent, run_loop_id: str) -> None:
    def rests() -> bool:
        state = agent.memory.short_term.state(run_loop_id)
        return state is not None and state.status == "idle"

    await until(rests)


def waits(agent: Agent) -> list[RunLoopState]:
    return [s for s in agent.memory.short_term.states() if s.status == "waiting_for_human_input"]


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
        assert heard(await whole(agent, trip))[0] == TRIP
        subscription.dispose()


async def test_the_same_answer_twice_counts_once_and_another_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, request = await asked(agent)
        for _ in range(2):
            went = await agent.answer(loop, choices=[TRIP], request_id=request.request_id)
            assert went == trip
        with pytest.raises(ConflictError, match="something else"):
            await agent.answer(loop, choices=["something new"], request_id=request.request_id)
        await at_rest(agent, trip)
        assert heard(await whole(agent, trip)) == [TRIP, VAGUE]


async def test_two_different_answers_at_once_are_one_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, request = await asked(agent)
        refused = list[str]()

        async def choose(option: str) -> None:
            try:
                await agent.answer(loop, choices=[option], request_id=request.request_id)
            except ConflictError:
                refused.append(option)

        async with anyio.create_task_group() as group:
            group.start_soon(choose, TRIP)
            group.start_soon(choose, "something new")
        assert len(refused) == 1
        await until(lambda: not waits(agent))
        places = [s.id for s in [await whole(agent, trip), await whole(agent, loop)] if s.unseen]
        said = [*heard(await whole(agent, trip)), *heard(await whole(agent, loop))]
        assert said.count(VAGUE) + len(places) == 1


async def test_what_is_no_option_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        loop, _ = await asked(agent)
        for choices in (["the garden"], [], [TRIP, "something new"]):
            with pytest.raises(InvalidInputError):
                await agent.answer(loop, choices=choices)
        with pytest.raises(InvalidInputError):
            await agent.answer(loop, approved=True)
        assert [state.id for state in waits(agent)] == [loop]


async def test_it_still_asks_after_a_restart_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, request = await asked(agent)
    # Also where the setting was taken back meanwhile.
    async with house(tmp_path, router=RouterOptions()) as agent:
        state = agent.memory.short_term.state(loop)
        assert state is not None
        assert state.awaiting == request
        await agent.answer(loop, choices=[TRIP])
        await at_rest(agent, trip)
        assert heard(await whole(agent, trip)) == [TRIP, VAGUE]


@pytest.mark.parametrize("ended", ["complete", "cancel"])
async def test_a_chosen_loop_that_has_ended_meanwhile_is_taken_up(
    tmp_path: Path, ended: str
) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, _ = await asked(agent)
        await getattr(agent, ended)(trip)
        went = await agent.answer(loop, choices=[TRIP])
        await at_rest(agent, went)
        state = await whole(agent, went)
        assert heard(state)[-1] == VAGUE
        if ended == "complete":
            assert state.predecessor_id == trip
        else:
            assert went == trip


async def test_two_unclear_messages_at_once_are_asked_about_one_by_one(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loops = dict[str, str]()

        async def send(words: str) -> None:
            loops[words], _ = await asked(agent, words)

        async with anyio.create_task_group() as group:
            for words in (VAGUE, "那天气呢？"):
                group.start_soon(send, words)
        assert len(set(loops.values())) == 2
        for loop in loops.values():
            await agent.answer(loop, choices=[TRIP])
        await until(lambda: not waits(agent))
        await at_rest(agent, trip)
        said = "\n".join(filter(None, heard(await whole(agent, trip))))
        assert all(said.count(words) == 1 for words in (TRIP, VAGUE, "那天气呢？"))


async def test_an_unclear_message_may_belong_to_one_that_waits_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        first, _ = await asked(agent)
        second, request = await asked(agent, "for two people, I mean")
        assert set(request.run_loop_ids) == {trip, first}
        where = request.options[request.run_loop_ids.index(first)]
        assert await agent.answer(second, choices=[where]) == first
        await at_rest(agent, first)
        # As for a message that is sent there: what was asked about the first one is dropped.
        assert not waits(agent)
        said = heard(await whole(agent, first))
        assert said == [f"{VAGUE}\n\nfor two people, I mean"]


async def test_a_message_that_is_moved_to_one_that_waits_itself_is_answered_there(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        first, _ = await asked(agent)
        second, _ = await asked(agent, "for two people, I mean")
        await agent.reroute(second, to=first)
        await at_rest(agent, first)
        said = heard(await whole(agent, first))
        assert said == [f"{VAGUE}\n\nfor two people, I mean"]
        assert not waits(agent)


async def test_whoever_sends_and_chooses_one_that_waits_itself_hears_the_answer(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        first, _ = await asked(agent)

        def choose(request: InputRequired) -> str:
            return request.options[request.run_loop_ids.index(first)]

        with anyio.fail_after(20):
            answer = await agent.ask(
                "for two people", callbacks=Callbacks(on_input_required=choose)
            )
        assert answer == "You said: for two people"


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


async def test_answers_are_labels_and_open_questions_are_not(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        await trip_of(agent)
        journal = agent.memory.journal
        loop, _ = await asked(agent)
        assert await labelled_routes(journal) == []
        await agent.answer(loop, choices=[TRIP])
        new, _ = await asked(agent, "Write a poem")
        await agent.answer(new, choices=["something new"])
        joined, opened = await labelled_routes(journal)
        assert joined.answered
        assert opened.answered
        assert joined.right == 0
        assert opened.right == len(opened.probabilities) - 1
        assert joined.model is not None


async def test_forgetting_a_matter_takes_it_out_of_what_was_asked_and_answered(
    tmp_path: Path,
) -> None:
    secret = "Xylophone heist at the Quixotic Bank"
    chinese = "木琴劫案发生在堂吉诃德银行"
    async with house(tmp_path, embedder=WordEmbedder()) as agent:
        places = [(await sent(agent, secret))[-1].run_loop_id]
        loop, request = await asked(agent, chinese)
        await agent.answer(loop, choices=[request.options[-1]])
        await until(lambda: not waits(agent))
        places.append(loop)
        done, request = await asked(agent, "Which zeppelin was it?")
        assert {secret, chinese} <= set(request.options)
        await agent.answer(done, choices=[secret])
        waiting, _ = await asked(agent, "And when?")
        for each in places:
            await at_rest(agent, each)
            await agent.complete(each)
        await archived(agent.memory)
        forgetting = ForgetRequest(run_loop_ids=tuple(places))
        preview = await agent.preview_forgetting(forgetting)
        assert waiting in {each.run_loop_id for each in preview.copies}
        assert preview.confirm is not None, preview.notice
        await finished(agent.memory, await agent.forget(forgetting, preview.confirm))
        for each in (done, waiting):
            await whole(agent, each)
            events = await agent.memory.journal.read(run_loop_id=each, kind="input.required")
            (asking,) = [e.body for e in events if isinstance(e.body, InputRequired)]
            assert asking.options.count(FORGOTTEN) == 2
            assert asking.options[-1] == "something new"
        # It waits still: nothing of what it holds back was lost.
        state = await agent.replay(waiting)
        assert state.awaiting is not None
        assert state == agent.memory.short_term.state(waiting)
        with pytest.raises(ConflictError):
            await agent.answer(waiting, choices=[FORGOTTEN])
        await agent.answer(waiting, choices=["something new"])
        await at_rest(agent, waiting)
        assert heard(await whole(agent, waiting)) == ["And when?"]
    # What was moved there went with it, also from where it had waited.
    assert traces(tmp_path, secret, "Quixotic", chinese, "堂吉诃德", "zeppelin") == []


# --- the question itself


def route(*goals: str, probability: float = 0.3, **more: Any) -> Route:
    candidates = tuple(
        RouteCandidate(run_loop_id=f"loop{n}", goal=goal, probability=probability)
        for n, goal in enumerate(goals)
    )
    said = {"decision": "join", "run_loop_id": "loop0", "confidence": 0.4, "method": "words"}
    return Route.model_validate({**said, "reason": "", "candidates": candidates, **more})


def test_the_likeliest_three_are_offered() -> None:
    found = question(route("a", "b", "c", "d"), "x")
    assert found.options == ("a", "b", "c", "something new")


def test_the_unlikely_are_not_offered_but_for_the_likeliest() -> None:
    assert question(route("a", "b", probability=0.01), "x").options == ("a", "something new")


def test_two_matters_of_the_same_name_can_be_told_apart() -> None:
    found = question(route("a", "something new", "a"), "x")
    assert len(set(found.options)) == 4
    assert found.options[0].startswith("a")


def test_only_what_is_less_sure_is_asked_about() -> None:
    unsure = route("a")
    assert rather_asked(unsure, below=0.4) == unsure
    assert rather_asked(unsure, below=0.41).method == "asked"
    assert rather_asked(unsure.model_copy(update={"method": "explicit"}), below=1).run_loop_id
    nothing = route()
    assert rather_asked(nothing, below=1) == nothing


async def test_repeating_an_answer_tells_where_it_went_and_not_where_later_words_went(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        trip = await trip_of(agent)
        loop, request = await asked(agent)
        again = {"choices": ["something new"], "request_id": request.request_id}
        await agent.answer(loop, **again)  # type: ignore[arg-type]
        await at_rest(agent, loop)
        await sent(agent, "and another word", loop)
        await agent.reroute(loop, to=trip)
        await agent.complete(loop)
        assert await agent.answer(loop, **again) == loop  # type: ignore[arg-type]
