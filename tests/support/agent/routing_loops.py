"""Run loops that messages are routed among, and models that are asked where they belong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.history.events import (
    Event,
    EventBody,
    IterationStarted,
    MessageCompleted,
    RunLoopIdle,
    RunLoopStarted,
)
from service.domain.history.fold import fold
from service.domain.history.human_input import InputRequired
from service.domain.history.state import RunLoopState
from service.llm.protocol import LLMStatus
from service.memory.protocol import Vectors
from tests.support.histories import BEGINNING, received

NOW = BEGINNING + timedelta(hours=1)
_GAP = timedelta(seconds=30)


def loop(run_loop_id: str, *said: str, ago: float = 60, asks: str | None = None) -> RunLoopState:
    """A loop in which a person and the assistant took turns, half a minute apart.

    Args:
        run_loop_id: its id.
        said: who spoke first is the person.
        ago: how many seconds ago the last word was said.
        asks: what it waits to be answered, if anything.
    """
    last = NOW - timedelta(seconds=ago)
    bodies: list[tuple[datetime, EventBody]] = []
    for place, text in enumerate(said):
        at = last - _GAP * (len(said) - 1 - place)
        if not bodies:
            bodies.append((at, RunLoopStarted(goal=text)))
        if place % 2 == 0:
            heard = IterationStarted(index=place // 2, message_ids=(f"m{place}",))
            bodies += [(at, received(text, f"m{place}")), (at, heard)]
        else:
            answer = MessageCompleted(message=Message.assistant(text))
            bodies += [(at, answer), (at, RunLoopIdle())]
    if asks is not None:
        bodies.append((last, InputRequired(request_id="r", kind="prompt", prompt=asks)))
    state = fold(
        Event(seq=seq, at=at, owner="me", run_loop_id=run_loop_id, body=body)
        for seq, (at, body) in enumerate(bodies, start=1)
    )
    assert state is not None
    return state


LISBON = loop(
    "lisbon",
    "plan a weekend in Lisbon",
    "How about staying near the river? The Hotel Aurora has rooms at 140 euros a night.",
    ago=120,
)
INVOICE = loop(
    "invoice", "file the invoice of the plumber", "It is filed. On which date did you pay it?"
)
BERLIN = loop(
    "berlin",
    "What's the weather in Berlin tomorrow?",
    "Tomorrow in Berlin: sunny, 24 degrees.",
    ago=40,
)
SHANGHAI = loop("shanghai", "上海明天天气怎么样？", "上海明天多云，最高二十六度。", ago=45)
LEAVE = loop("leave", "帮我写一封请假邮件", "好的，请问您要请几天假？", ago=100)
TABLE = loop(
    "table",
    "Book a table at a restaurant for Friday",
    "Let me see.",
    ago=50,
    asks="For how many people?",
)


class Judge:
    """A model that gives a fixed judgement, and remembers what it was asked."""

    model = "judge"

    def __init__(
        self,
        answer: str | Exception,
        *,
        ready: bool = True,
        hangs: bool = False,
        context_tokens: int = 8192,
    ) -> None:
        self.answer = answer
        self.ready = ready
        self.hangs = hangs
        self.context_tokens = context_tokens
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []

    @property
    def labels(self) -> list[str]:
        """What it could choose from when it was asked last."""
        labels: list[str] = self.schemas[-1]["properties"]["continues"]["enum"]
        return labels

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        assert response_schema is not None
        self.schemas.append(response_schema)
        self.asked.append(messages[-1].text)
        if self.hangs:
            await anyio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        yield TextDelta(self.answer)

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        pass

    def status(self) -> LLMStatus:
        return LLMStatus(ready=self.ready, detail="")

    async def aclose(self) -> None:
        pass


async def no_embedder(texts: Sequence[str]) -> Vectors | None:
    return None
