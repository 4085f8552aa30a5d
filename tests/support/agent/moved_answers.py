"""Run loops that wait for an answer, and messages that they take for one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.history.events import Event, MessageReceived
from service.domain.history.human_input import InputRequired
from service.tools.builtins.ask_user import ask_user, choose
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, running_agent, sent
from tests.support.agent.waiting import tool_call

SECRET = "Zanzibarquine"


@tool(effect="read_only")
async def look(at: str) -> str:
    """Look."""
    return f"It says {at}."


def respond(messages: Sequence[Message]) -> Answer:
    """Asks for a name or for a drink where that is needed, and else says what it has heard."""
    last = messages[-1]
    if last.role == "tool":
        step = max(at for at, message in enumerate(messages) if message.role == "assistant")
        results = "; ".join(message.text for message in messages[step + 1 :])
        if "look there" in results:
            return [tool_call("look", 2, at="the map")]
        if "launch it" in results:
            return [tool_call("launch", 2, what="a rocket")]
        return f"Done: {results}"
    for word, asks in (
        ("table", tool_call("ask_user", question="What name?")),
        ("drink", tool_call("choose", question="喝什么？", options=["茶", "咖啡"])),
        ("both", tool_call("ask_user", question="What name?")),
    ):
        if word in last.text:
            others = [tool_call("look", 1, at="both")] if word == "both" else []
            return [asks, *others]
    return f"Heard: {last.text}"


def house(folder: Path, *more: object, **options: object):  # type: ignore[no-untyped-def]
    tools = (ask_user, choose, look, *more)
    return running_agent(folder, respond, *tools, auto_classify=False, **options)  # type: ignore[arg-type]


async def opened(agent: Agent, words: str) -> str:
    return (await sent(agent, words, "new"))[-1].run_loop_id


def message_of(events: Sequence[Event]) -> str:
    return next(e.body.message_id for e in events if isinstance(e.body, MessageReceived))


async def said(agent: Agent, words: str, run_loop_id: str) -> str:
    """The id of a message that its loop takes for an answer."""
    return message_of(await sent(agent, words, run_loop_id))


def asks(agent: Agent, run_loop_id: str) -> InputRequired | None:
    state = agent.memory.short_term.state(run_loop_id)
    return None if state is None else state.awaiting
