"""Answers to the question where a message belongs: each counts once, and moves what waits."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.agent.callbacks import Callbacks
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.human_input import InputRequired
from service.routing.calibration.corrections import labelled_routes
from service.routing.routing_options import RouterOptions
from tests.support.agent.agents import sent, until
from tests.support.agent.asking_where import (
    TRIP,
    VAGUE,
    asked,
    at_rest,
    house,
    trip_of,
    waits,
)
from tests.support.agent.moves import heard, whole
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived, finished, traces

pytestmark = pytest.mark.anyio


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
        await until(lambda: not any(state.unseen for state in agent.memory.short_term.states()))
        said = [*heard(await whole(agent, trip)), *heard(await whole(agent, loop))]
        assert said.count(VAGUE) == 1


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


@pytest.mark.slow
async def test_forgetting_a_topic_takes_it_out_of_what_was_asked_and_answered(
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
