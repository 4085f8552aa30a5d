"""What the tests of asking a person share: a model that wants calls run, and tools that note it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, ToolCallDelta
from service.domain.history.human_input import InputRequired
from service.domain.run_loops import RunLoop
from service.tools.decorator import FunctionTool, tool
from tests.support.agent.agents import Answer, Respond, sent, until


@dataclass(slots=True)
class Launches:
    """Notes what was launched."""

    launched: list[str] = field(default_factory=list)

    def tool(self, name: str = "launch", *, needs_approval: bool = True) -> FunctionTool:
        @tool(name=name, effect="side_effects", needs_approval=needs_approval)
        async def launch(what: str) -> str:
            """Launch something."""
            self.launched.append(what)
            return f"{what} is launched"

        return launch


def launch_call(what: str, index: int = 0) -> ToolCallDelta:
    return tool_call("launch", index, what=what)


def tool_call(name: str, index: int = 0, /, **arguments: object) -> ToolCallDelta:
    text = json.dumps(arguments, ensure_ascii=False)
    return ToolCallDelta(index=index, id=f"c{index}", name=name, arguments=text)


def wanting(*calls: StreamPart) -> Respond:
    """Wants these calls run whenever a person says something, and then tells their results."""

    def respond(messages: Sequence[Message]) -> Answer:
        results: list[str] = []
        for message in reversed(messages):
            if message.role != "tool":
                break
            results.insert(0, message.text)
        return f"Results: {'; '.join(results)}" if results else list(calls)

    return respond


async def asked(agent: Agent, message: str = "launch it", **options: str) -> str:
    """Send a message to whose answer a person is needed; the id of its loop."""
    events = await sent(agent, message, **options)
    assert isinstance(events[-1].body, InputRequired)
    return events[-1].run_loop_id


def request_id(agent: Agent, run_loop_id: str) -> str:
    """Of what a loop asks now."""
    state = agent.memory.short_term.state(run_loop_id)
    assert state is not None
    assert state.awaiting is not None
    return state.awaiting.request_id


async def rested(agent: Agent, run_loop_id: str) -> RunLoop:
    """A loop, once it works no more."""
    short_term = agent.memory.short_term
    await until(lambda: (s := short_term.state(run_loop_id)) is None or s.status == "idle")
    return await agent.run_loop(run_loop_id)


def results_of(run_loop: RunLoop) -> list[str]:
    return [each.content for turn in run_loop.iterations for each in turn.tool_results]
