"""What persons made of the router's decisions, told from the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RouteDecided,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.routes import Route, RouteCandidate
from service.routing.calibration.corrections import LabelledRoute, labelled_routes
from tests.support.agent.agents import running_agent
from tests.support.memory.secrets import archived, finished

pytestmark = pytest.mark.anyio


async def decided(
    agent: Agent, message_id: str, route: Route, *, loop: str | None = None, owner: str = "me"
) -> str:
    """A message that came in by a route, and was answered; the id of its loop."""
    journal = agent.memory.journal
    run_loop_id = route.run_loop_id or loop or f"loop-{message_id}"
    state = agent.memory.short_term.state(run_loop_id)
    opening = [] if state else [RunLoopStarted(goal=message_id)]
    await journal.append(
        run_loop_id,
        *opening,
        MessageReceived(message_id=message_id, message=Message.user(f"words of {message_id}")),
        RouteDecided(message_id=message_id, route=route),
        IterationStarted(index=state.iteration_count if state else 0, message_ids=(message_id,)),
        MessageCompleted(message=Message.assistant("Yes.")),
        RunLoopIdle(),
        owner=owner,
    )
    return run_loop_id


def weighed(chosen: str | None, *candidates: tuple[str, float], new: float) -> Route:
    return Route(
        decision="join" if chosen else "new",
        run_loop_id=chosen,
        confidence=0.5,
        method="embedding",
        reason="it seemed so",
        candidates=tuple(
            RouteCandidate(run_loop_id=name, goal=name, probability=p) for name, p in candidates
        ),
        new_probability=new,
    )


UNWEIGHED = Route(decision="new", confidence=1.0, method="fallback", reason="no run loop is active")


async def labels(agent: Agent, owner: str | None = None) -> dict[str, LabelledRoute]:
    return {each.message_id: each for each in await labelled_routes(agent.memory.journal, owner)}


async def test_each_way_in_which_a_decision_can_turn_out(tmp_path: Path) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        a, b, c = [await decided(agent, name, UNWEIGHED) for name in ("a", "b", "c")]
        for name, route in {
            "left": weighed(a, (a, 0.7), (b, 0.2), new=0.1),
            "to-b": weighed(a, (a, 0.6), (b, 0.3), new=0.1),
            "to-new": weighed(a, (a, 0.6), (b, 0.1), new=0.3),
            "to-none": weighed(a, (a, 0.6), (b, 0.2), new=0.2),
            "there-and-back": weighed(a, (a, 0.9), (b, 0.0), new=0.1),
            "new-to-b": weighed(None, (a, 0.1), (b, 0.2), new=0.7),
            "new-left": weighed(None, (a, 0.1), (b, 0.1), new=0.8),
        }.items():
            await decided(agent, name, route)
        await agent.reroute(a, message_id="to-b", to=b)
        new = (await agent.reroute(a, message_id="to-new")).to_run_loop_id
        await agent.reroute(a, message_id="to-none", to=c)
        await agent.reroute(a, message_id="there-and-back", to=b)
        await agent.reroute(b, message_id="there-and-back", to=a)
        await agent.reroute("loop-new-to-b", to=b)
        await agent.fork(new)  # its copies are no decisions
        outcomes = await labels(agent)
        assert outcomes.keys() == {
            "left",
            "to-b",
            "to-new",
            "to-none",
            "there-and-back",
            "new-to-b",
            "new-left",
        }
        assert {name: (each.decided, each.right) for name, each in outcomes.items()} == {
            "left": (0, 0),
            "to-b": (0, 1),
            "to-new": (0, 2),
            "to-none": (0, None),
            "there-and-back": (0, 0),
            "new-to-b": (2, 1),
            "new-left": (2, 2),
        }
        corrected = {name for name, each in outcomes.items() if each.corrected}
        assert corrected == {"to-b", "to-new", "to-none", "new-to-b"}
        assert outcomes["to-b"].probabilities == (0.6, 0.3, 0.1)
        assert outcomes["to-b"].method == "embedding"


async def test_a_message_moved_to_a_topic_that_was_opened_later_was_new(tmp_path: Path) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        a = await decided(agent, "a", UNWEIGHED)
        await decided(agent, "early", weighed(a, (a, 0.8), new=0.2))
        later = await decided(agent, "later", UNWEIGHED)
        await agent.reroute(a, message_id="early", to=later)
        assert (await labels(agent))["early"].right == 1


@pytest.mark.slow
async def test_a_correction_stays_one_when_the_loop_that_was_right_is_forgotten(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        a, b, c = [await decided(agent, name, UNWEIGHED) for name in ("a", "b", "c")]
        for name in ("to-b", "to-c", "on-to-b"):
            await decided(agent, name, weighed(a, (a, 0.6), (b, 0.3), new=0.1))
        await agent.reroute(a, message_id="to-b", to=b)
        await agent.reroute(a, message_id="to-c", to=c)
        on = (await agent.reroute(a, message_id="on-to-b")).to_run_loop_id
        await agent.reroute(on, message_id="on-to-b", to=b)
        fork = (await agent.fork(b)).id
        for each in (b, c, fork):
            await agent.complete(each)
        for gone in ((on,), (b, c)):
            await archived(agent.memory)
            request = ForgetRequest(run_loop_ids=gone)
            preview = await agent.preview_forgetting(request)
            assert preview.confirm is not None, preview.notice
            await finished(agent.memory, await agent.forget(request, preview.confirm))
            outcomes = {
                name: (each.right, each.corrected) for name, each in (await labels(agent)).items()
            }
            if gone == (on,):
                assert outcomes == {"to-b": (1, True), "to-c": (None, True), "on-to-b": (1, True)}
        # Whether the third one was there before cannot be told any more.
        assert outcomes == {"to-b": (1, True)}


async def test_what_was_not_weighed_and_what_others_said_is_left_out(tmp_path: Path) -> None:
    async with running_agent(tmp_path, auto_classify=False) as agent:
        a = await decided(agent, "a", UNWEIGHED)
        older = weighed(a, (a, 0.8), new=0.2).model_copy(update={"new_probability": None})
        await decided(agent, "older", older)
        yours = await decided(agent, "yours", UNWEIGHED, owner="you")
        await decided(agent, "your own", weighed(yours, (yours, 1.0), new=0.0), owner="you")
        assert await labels(agent, "me") == {}
        assert (await labels(agent, "you")).keys() == {"your own"}
        assert (await labels(agent)).keys() == {"your own"}
