"""A brain of the owner's own: it may want anything, and no loop hangs, breaks, or acts unasked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.domain.conversation.instructions import (
    CallLLM,
    CallTools,
    Compact,
    Finish,
    Instruction,
    RequestHumanApprove,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from service.domain.conversation.messages import Message, ToolCall
from service.domain.errors import Problem
from service.domain.history.events import RunLoopFailed
from service.domain.history.human_input import InputRequired
from service.domain.history.state import RunLoopState
from service.loop.brain import landing
from service.memory.memory import Memory
from service.tools.builtins.ask_user import ask_user
from service.tools.decorator import tool
from service.tools.registry import ToolRegistry
from tests.support.agent.agents import (
    FunctionLLM,
    answer_of,
    call,
    echo,
    request_of,
    running_agent,
    sent,
    types,
)
from tests.support.agent.brains import Thinks, problem_of
from tests.support.agent.waiting import (
    Launches,
    launch_call,
    rested,
    results_of,
    tool_call,
    wanting,
)

pytestmark = pytest.mark.anyio


# --- what it may do


def asks_first(state: RunLoopState) -> Instruction | None:
    """Wants to know a name before anything else, and a drink before the end."""
    if not state.iterations and len(state.unseen) == 1:
        return RequestHumanPrompt("What is your name?", metadata={"field": "name", "rows": [1]})
    if state.is_answered and state.iteration_count == 1 and not state.unseen:
        options = ("茶", "coffee")
        return RequestHumanSelect("喝什么？", options, metadata={"as": "buttons"})
    if state.is_answered and not state.unseen:
        return Finish()
    return CallLLM(tuple(unseen.id for unseen in state.unseen))


async def test_it_may_ask_a_person_without_any_tool_call_and_hears_the_answer(
    tmp_path: Path,
) -> None:
    brain = Thinks(asks_first)
    async with running_agent(tmp_path, echo, brain=brain) as agent:
        events = await sent(agent, "Hello.")
        request = request_of(events)
        assert (request.kind, request.prompt, request.call_id) == (
            "prompt",
            "What is your name?",
            None,
        )
        assert request.metadata == {"field": "name", "rows": [1]}
        assert events[-1].wire()["data"]["metadata"] == request.metadata
        loop_id = events[0].run_loop_id
    async with running_agent(tmp_path, echo, brain=brain) as agent:  # across a restart
        awaited = (await agent.replay(loop_id)).awaiting
        assert awaited is not None
        assert awaited.metadata == {"field": "name", "rows": [1]}
        answering = await agent.answer(loop_id, text="Ada")
        assert answering == loop_id
        with anyio.fail_after(10):
            async for event in agent.events(run_loop_id=loop_id, after=0):
                if isinstance(event.body, InputRequired) and event.body.kind == "select":
                    assert event.body.metadata == {"as": "buttons"}
                    break
        assert isinstance(event.body, InputRequired)
        await agent.answer(loop_id, choices=["茶"], request_id=event.body.request_id)
        loop = await rested(agent, loop_id)
    heard = [iteration.user_message for iteration in loop.iterations]
    assert heard == ["Hello.\n\nAda", "茶"]
    assert [iteration.response for iteration in loop.iterations] == [
        "You said: Ada",
        "You said: 茶",
    ]


async def test_what_it_leaves_open_the_built_in_brain_decides(tmp_path: Path) -> None:
    async with running_agent(tmp_path, echo, brain=Thinks(lambda state: None)) as agent:
        assert answer_of(await sent(agent, "hello")) == "You said: hello"


async def test_the_agents_own_brain_goes_before_that_of_the_options(tmp_path: Path) -> None:
    of_options = Thinks(lambda state: Finish(Problem(kind="x", title="of the options")))
    agent = create_agent(
        FunctionLLM(echo),
        ToolRegistry(),
        Memory(tmp_path, None),
        AgentOptions(brain=of_options),
        brain=Thinks(lambda state: None),
    )
    async with agent:
        assert answer_of(await sent(agent, "hello")) == "You said: hello"


async def test_it_sees_a_call_before_that_begins_and_can_have_it_approved_or_answered(
    tmp_path: Path,
) -> None:
    ran: list[str] = []

    @tool(effect="read_only")
    def look(where: str) -> str:
        """Look."""
        ran.append(where)
        return f"nothing in the {where}"

    def careful(state: RunLoopState) -> Instruction | None:
        open_ = [each for each in state.pending if each.approved is None and each.answer is None]
        if len(open_) == 2:
            return RequestHumanPrompt("And in the box?", call_id=open_[0].call.id)
        return RequestHumanApprove((open_[0].call,)) if open_ else None

    both = wanting(tool_call("look", 0, where="box"), tool_call("look", 1, where="bag"))
    async with running_agent(tmp_path, both, look, brain=Thinks(careful)) as agent:
        events = await sent(agent, "Look!")
        loop_id = events[0].run_loop_id
        assert request_of(events).prompt == "And in the box?"
        await agent.answer(loop_id, text="a cat", request_id=request_of(events).request_id)
        with anyio.fail_after(10):
            async for event in agent.events(run_loop_id=loop_id, after=0):
                if isinstance(event.body, InputRequired) and event.body.kind == "approve":
                    break
        assert ran == []
        assert isinstance(event.body, InputRequired)
        await agent.answer(loop_id, approved=True, request_id=event.body.request_id)
        assert sorted(results_of(await rested(agent, loop_id))) == ["a cat", "nothing in the bag"]
    assert ran == ["bag"]


# --- what it may not do


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_needs_a_yes_is_asked_for_even_if_it_says_run(
    tmp_path: Path, approved: bool
) -> None:
    launches = Launches()

    def reckless(state: RunLoopState) -> Instruction | None:
        calls = tuple(each.call for each in state.pending)
        return CallTools(calls) if calls else None

    wants = wanting(launch_call("the rocket"))
    options: dict[str, Any] = {"brain": Thinks(reckless)}
    async with running_agent(tmp_path, wants, launches.tool(), **options) as agent:
        events = await sent(agent, "Launch it.")
        request = request_of(events)
        assert request.kind == "approve"
        assert launches.launched == []
        loop_id = events[0].run_loop_id
        await agent.answer(loop_id, approved=approved)
        await rested(agent, loop_id)
    assert launches.launched == (["the rocket"] if approved else [])


async def test_a_question_of_the_models_is_put_to_the_person_even_if_it_says_run(
    tmp_path: Path,
) -> None:
    def reckless(state: RunLoopState) -> Instruction | None:
        calls = tuple(each.call for each in state.pending)
        return CallTools(calls) if calls else None

    where = wanting(tool_call("ask_user", question="Where to?"))
    async with running_agent(tmp_path, where, ask_user, brain=Thinks(reckless)) as agent:
        assert request_of(await sent(agent, "Book it.")).prompt == "Where to?"


FORGED = ToolCall(id="c0", name="launch", arguments='{"what": "another rocket"}')


def with_pending(give: Callable[[RunLoopState], Any]) -> Callable[[RunLoopState], Any]:
    return lambda state: give(state) if state.pending else None


def answered(give: Callable[[RunLoopState], Any]) -> Callable[[RunLoopState], Any]:
    return lambda state: give(state) if state.is_answered and not state.unseen else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("brain", "words"),
    [
        (lambda state: "call_llm", "gave 'call_llm', which is no instruction"),
        (lambda state: CallLLM, "which is no instruction"),
        (lambda state: CallLLM(("nobody",)), "not each is a message that waits"),
        (lambda state: CallLLM(landing(state) * 2), "not each is a message that waits"),
        (lambda state: CallLLM(cast("Any", None)), "which cannot be read"),
        (lambda state: CallLLM(), "a message waits that no model call has observed"),
        (lambda state: Finish(), "a message waits that no model call has observed"),
        (lambda state: CallTools((FORGED,)), "does not wait for a result"),
        (lambda state: CallTools(()), "it names no call"),
        (lambda state: CallTools(cast("Any", None)), "which cannot be read"),
        (lambda state: RequestHumanApprove(()), "it names no call"),
        (lambda state: RequestHumanPrompt(" "), "raised ValueError: a question has words"),
        (lambda state: RequestHumanPrompt("?", call_id="c9"), "it names no call"),
        (lambda state: RequestHumanPrompt("?", metadata={"a": 1e999}), "cannot be written as JSON"),
        (lambda state: RequestHumanPrompt("?", metadata={"a": object()}), "written as JSON"),
        (
            lambda state: RequestHumanPrompt("?", metadata=cast("Any", {1: "a"})),
            "use plain JSON values",
        ),
        (lambda state: RequestHumanSelect("?", ()), "there must be options"),
        (lambda state: RequestHumanSelect("?", ("a", "a")), "each another one"),
        (lambda state: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda state: exit(3), "raised SystemExit: 3"),
        (with_pending(lambda state: CallLLM()), "tool calls wait for their results"),
        (with_pending(lambda state: Finish()), "tool calls wait for their results"),
        (with_pending(lambda state: CallTools((FORGED,))), "does not wait for a result"),
        (answered(lambda state: CallLLM()), "everything has been answered"),
        (answered(lambda state: CallLLM(enhance=True)), "the model was asked 10 times"),
        (answered(lambda state: CallLLM(continues=True)), "no answer whose tokens were used up"),
        (answered(lambda state: Compact()), "since the model last answered"),
    ],
)
async def test_a_brain_that_is_wrong_ends_its_loop_in_words_and_no_other(
    tmp_path: Path, brain: Callable[[RunLoopState], Any], words: str
) -> None:
    launches = Launches()

    def wrong(state: RunLoopState) -> Instruction | None:
        instruction: Instruction | None = brain(state) if "rocket" in state.goal else None
        return instruction

    def respond(messages: Sequence[Message]) -> Any:
        if messages[-1].role == "user" and "rocket" in messages[-1].text:
            return [launch_call("rocket"), call("nothing", index=1)]
        return "Well."

    options: dict[str, Any] = {"brain": Thinks(wrong), "auto_classify": False}
    with anyio.fail_after(30):
        async with running_agent(
            tmp_path, respond, launches.tool(needs_approval=False), **options
        ) as agent:
            problem = problem_of(await sent(agent, "The rocket, please."))
            assert problem.kind == "own-code"
            assert "the brain tests.support.agent.brains.Thinks of yours" in problem.detail
            assert words in problem.detail
            assert problem.advice
            assert "another rocket" not in launches.launched
            assert answer_of(await sent(agent, "Hello.")) == "Well."


@pytest.mark.slow
async def test_a_brain_that_never_comes_back_holds_up_no_other_loop(tmp_path: Path) -> None:
    free = threading.Event()

    def slow(state: RunLoopState) -> None:
        if state.goal == "Wait.":
            free.wait(20)

    options: dict[str, Any] = {"brain": Thinks(slow), "hook_timeout_seconds": 0.5}
    try:
        async with running_agent(tmp_path, echo, auto_classify=False, **options) as agent:
            await agent.accept("Wait.")
            assert answer_of(await sent(agent, "Hello.")) == "You said: Hello."
            async for event in agent.events(after=0):
                if isinstance(event.body, RunLoopFailed):
                    assert "did not come back within 0.5 seconds" in event.body.problem.detail
                    break
    finally:
        free.set()


async def test_once_it_is_corrected_its_loop_goes_on(tmp_path: Path) -> None:
    broken: list[str] = ["yes"]
    brain = Thinks(lambda state: "nonsense" if broken else None)
    async with running_agent(tmp_path, echo, brain=brain) as agent:
        loop_id = (await sent(agent, "hello"))[0].run_loop_id
        broken.clear()
        await agent.resume(loop_id)
        assert (await rested(agent, loop_id)).iterations[-1].response == "You said: hello"


async def test_budgets_hold_for_every_brain(tmp_path: Path) -> None:
    def again(state: RunLoopState) -> Instruction | None:
        return CallLLM(enhance=True) if state.is_answered and not state.unseen else None

    brain = Thinks(again)
    async with running_agent(
        tmp_path, lambda _: "word " * 400, brain=brain, budget_tokens=700
    ) as agent:
        assert problem_of(await sent(agent, "hello")).kind == "budget"


async def test_a_conversation_grows_too_long_for_no_brain(tmp_path: Path) -> None:
    def only_asks(state: RunLoopState) -> Instruction | None:
        ids = landing(state)
        return CallLLM(ids) if ids else None

    async with running_agent(
        tmp_path, lambda _: "word " * 400, brain=Thinks(only_asks), context_tokens=1500
    ) as agent:
        loop_id = (await sent(agent, "hello"))[0].run_loop_id
        seen = [each for n in range(4) for each in types(await sent(agent, f"and {n}", loop_id))]
    assert "compaction.finished" in seen
    assert "run_loop.failed" not in seen
