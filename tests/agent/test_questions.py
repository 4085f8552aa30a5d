"""Open questions are an observable, and can be answered from any thread."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import reactivex

from service.agent.human_input.answer_reading import Answer
from service.agent.human_input.open_questions import Question, Questions
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.history.events import Event
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.short_term import ShortTermMemory
from service.tools.builtins.ask_user import ask_user
from tests.support.agent.agents import running_agent, until
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    rested,
    results_of,
    tool_call,
    wanting,
)
from tests.support.histories import received

pytestmark = pytest.mark.anyio

ROCKET = wanting(launch_call("the rocket"))
WHERE = wanting(tool_call("ask_user", question="Where to?"))


async def test_a_subscriber_answers_from_its_own_thread(tmp_path: Path) -> None:
    launches = Launches()
    seen: list[tuple[str, ...]] = []
    threads: set[int] = set()
    answers: list[Future[None]] = []

    def on_next(questions: tuple[Question, ...]) -> None:
        threads.add(threading.get_ident())
        seen.append(tuple(question.goal for question in questions))
        answers.extend(question.answer(approved=True) for question in questions)
        for answer in answers:
            answer.result(20)  # it is not the agent's thread that waits here

    async with running_agent(tmp_path, ROCKET, launches.tool()) as agent:
        with agent.questions.subscribe(on_next):
            await until(lambda: seen)
            loop_id = await asked(agent, "launch it")
            assert results_of(await rested(agent, loop_id)) == ["the rocket is launched"]
            await until(lambda: seen[-1:] == [()])
    assert threading.get_ident() not in threads
    assert len(threads) == 1
    assert seen == [(), ("launch it",), ()]
    assert launches.launched == ["the rocket"]


async def test_who_comes_later_is_told_at_once_what_is_open_and_since_when(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, WHERE, ask_user, auto_classify=False) as agent:
        first = await asked(agent, "a trip", owner="ada")
        second = await asked(agent, "another", owner="me")
        events = await agent.memory.journal.read(run_loop_id=first)
    async with running_agent(tmp_path, WHERE, ask_user, auto_classify=False) as agent:
        seen: list[tuple[Question, ...]] = []
        with agent.questions.subscribe(seen.append):
            await until(lambda: seen)
        one, two = seen[0]
        assert (one.run_loop_id, one.owner, one.goal) == (first, "ada", "a trip")
        assert one.request.prompt == "Where to?"
        assert one.asked_at == events[-1].at
        assert two.run_loop_id == second
        one.answer(text="Lisbon")
        await until(lambda: (s := agent.memory.short_term.state(first)) and not s.awaiting)


async def test_an_answer_that_is_not_taken_fails_in_words_and_the_question_stays(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, WHERE, ask_user) as agent:
        loop_id = await asked(agent)
        seen: list[tuple[Question, ...]] = []
        with agent.questions.subscribe(seen.append):
            await until(lambda: seen)
            (question,) = seen[-1]
            wrong = await anyio.to_thread.run_sync(
                lambda: question.answer(approved=True).exception(20)
            )
            assert isinstance(wrong, InvalidInputError)
            assert (await agent.run_loop(loop_id)).status == "waiting_for_human_input"
            await agent.answer(loop_id, text="Lisbon")
            late = await anyio.to_thread.run_sync(
                lambda: question.answer(text="Porto").exception(20)
            )
            assert isinstance(late, ConflictError)
        assert results_of(await rested(agent, loop_id)) == ["Lisbon"]


async def test_a_question_is_looked_up_once_and_forgotten_when_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_agent(tmp_path, WHERE, ask_user, auto_classify=False) as agent:
        read = agent.memory.journal.read_blocking
        kinds: list[str | None] = []

        def noted(**asked: Any) -> list[Event]:
            kinds.append(asked.get("kind"))
            return read(**asked)

        loop_id = await asked(agent, "a trip")
        monkeypatch.setattr(agent.memory.journal, "read_blocking", noted)
        monkeypatch.setattr(RunLoopState, "run_loop", _too_dear)
        questions = Questions(agent.memory, _nobody)
        seen: list[tuple[Question, ...]] = []
        states: list[int] = []
        with (
            questions.open.subscribe(seen.append),
            agent.memory.short_term.active_states.subscribe(lambda s: states.append(s[0].last_seq)),
        ):
            await until(lambda: seen)
            for words in ("still there?", "hello?"):
                waits = received(words).model_copy(update={"mode": "followup"})
                commit = await agent.memory.journal.append(loop_id, waits)
                await until(partial(states.__contains__, commit.state.last_seq))
            monkeypatch.undo()
            waiting = tuple(agent.memory.short_term.states())
            await agent.answer(loop_id, text="Lisbon")
            await until(lambda: seen[-1:] == [()])
        assert [len(each) for each in seen] == [1, 0]
        assert kinds == ["input.required"], "one event was read, and once"
        # Nothing is kept of it: if it came back, it would be looked up anew.
        monkeypatch.setattr(agent.memory.journal, "read_blocking", noted)
        monkeypatch.setattr(ShortTermMemory, "active_states", reactivex.of(waiting))
        questions.open.subscribe(seen.append)
        assert kinds == ["input.required"] * 2


def _too_dear(state: RunLoopState) -> RunLoop:
    raise AssertionError("a run loop was built whole")


async def _nobody(run_loop_id: str, answer: Answer, owner: str) -> None:
    raise AssertionError("nobody answers here")


def test_an_answer_after_the_agent_has_gone_is_refused(tmp_path: Path) -> None:
    seen: list[tuple[Question, ...]] = []
    done = threading.Event()

    async def work() -> None:
        async with running_agent(tmp_path, WHERE, ask_user) as agent:
            await asked(agent)
            agent.questions.subscribe(seen.append, on_completed=done.set)
            await until(lambda: seen)

    anyio.run(work)
    assert done.wait(20), "whoever observes is told that nothing more comes"
    (question,) = seen[-1]
    assert isinstance(question.answer(text="Lisbon").exception(20), ConflictError)
