"""Answers that are not whole: a model that plays them, and what of them was said."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from service.agent.agent import Agent
from service.domain.conversation.messages import FinishReason, Message
from service.domain.conversation.stream_parts import ResponseInfo, TextDelta
from service.domain.history.events import (
    Event,
    IterationStarted,
    MessageCompleted,
)
from service.domain.history.outcome import Spoken
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
)

CUT = ResponseInfo(finish_reason="length")


def cut(text: str, reason: FinishReason = "length") -> Answer:
    return [TextDelta(text), ResponseInfo(finish_reason=reason)]


def playing(*answers: Answer | Callable[[], Answer]) -> FunctionLLM:
    left = list(answers)

    def respond(messages: Sequence[Message]) -> Answer:
        answer = left.pop(0)
        return answer() if callable(answer) else answer

    return FunctionLLM(respond)


def spoken(events: Sequence[Event]) -> Spoken:
    answer = Spoken()
    for event in events:
        if isinstance(event.body, IterationStarted):
            answer.begin(event.body)
        elif isinstance(event.body, MessageCompleted):
            answer.say(event.body)
    return answer


async def events_of(agent: Agent, loop_id: str) -> list[Event]:
    return await agent.memory.journal.read(run_loop_id=loop_id)
