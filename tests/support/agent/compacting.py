"""Conversations that become too long, and a model that answers and summarises."""

from __future__ import annotations

from collections.abc import Sequence

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.history.events import (
    CompactionFinished,
    Event,
)
from tests.support.agent.agents import (
    Answer,
    sent,
)
from tests.support.agent.conversations import WORDS

LIMIT = 3000
"""A window, in tokens, that a few rounds fill."""


def is_request(messages: Sequence[Message]) -> bool:
    """Whether the model is asked for a summary."""
    return messages[0].text.startswith("You condense")


def talks(messages: Sequence[Message]) -> Answer:
    """Answers at length, and summarises in a few words."""
    if is_request(messages):
        return "They spoke of foxes."
    return f"Answer to {messages[-1].text[:20]}. " + WORDS * 40


async def conversation(agent: Agent, questions: int) -> tuple[str, list[Event]]:
    """A conversation of so many rounds; the loop's id, and the events of the last round."""
    events = await sent(agent, "Question 0: " + WORDS * 20)
    for number in range(1, questions):
        events = await sent(agent, f"Question {number}: " + WORDS * 20, events[0].run_loop_id)
    return events[0].run_loop_id, events


def finished(events: Sequence[Event]) -> list[CompactionFinished]:
    return [each.body for each in events if isinstance(each.body, CompactionFinished)]


async def all_events(agent: Agent, run_loop_id: str) -> list[Event]:
    return await agent.memory.journal.read(run_loop_id=run_loop_id)
