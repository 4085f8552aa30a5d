"""What answers: the daemon's own parts, as configured, with nothing in its memory.

And beside them the model by itself: the same weights, one line of instructions, the turns as plain
chat.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import Agent
from service.agent.agent_factory import agent_from_settings
from service.bench.answers.answer_dataset import Conversation
from service.bench.parameters import BenchmarkError
from service.config import Settings
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.errors import ConflictError, LLMError
from service.domain.history.events import (
    ErrorOccurred,
    Event,
    MessageCompleted,
    MessageDelta,
    RouteDecided,
    RunLoopCancelled,
    RunLoopFailed,
)
from service.domain.history.human_input import InputRequired
from service.llm.generate import generate
from service.llm.protocol import LLM

_LONGEST_ANSWER_SECONDS = 600.0
BARE_PROMPT = "You are a helpful assistant."


@dataclass(frozen=True, slots=True)
class Heard:
    """All that was said to one message, and how long it took."""

    answer: str
    whole_ms: float
    """From sending it to the end of the answer."""
    first_token_ms: float | None
    """To the first piece of the answer that a person could read; None: there was none."""
    tools: tuple[str, ...] | None = ()
    """The names of the tools that were called; None: there were none to call."""
    route: str = ""
    """Whether it opened a run loop or joined one."""
    problem: str = ""
    """What went wrong, in words, where something did."""


class Lent:
    """A model that several agents use, one after another: none of them closes it.

    A process that reads weights and prompts anew for each conversation would be most of the time.
    What it keeps is what it has read of prompts, which changes how fast it answers, not what.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    async def aclose(self) -> None:
        """Whoever has lent it closes it."""


@asynccontextmanager
async def fresh_agent(
    settings: Settings, llm: LLM | None, folder: Path | None = None
) -> AsyncGenerator[Agent]:
    """A working agent, warmed up.

    Args:
        settings: all but the folder of data.
        llm: the model, lent; None: its own, as configured.
        folder: of its data; None: an empty one, which is removed afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as empty:
        placed = settings.model_copy(update={"data_dir": folder or Path(empty)})
        lent: Any = None if llm is None else Lent(llm)
        async with agent_from_settings(placed, llm=lent) as agent:
            await agent.memory.warmed_up()
            yield agent


async def converse(settings: Settings, llm: LLM, conversation: Conversation) -> list[Heard]:
    """Have a conversation with a daemon of its own."""
    heard: list[Heard] = []
    async with fresh_agent(settings, llm) as agent:
        for turn in conversation.turns:
            if turn.later:
                await _end_all(agent)
            heard.append(await ask(agent, turn.say))
    return heard


async def ask(agent: Agent, words: str, run_loop_id: str | None = None) -> Heard:
    """Send a message and hear what is said to it, a question that is asked back included.

    Args:
        agent: whom.
        words: the message.
        run_loop_id: as `Agent.send` takes it; None: the router decides.
    """
    began = time.perf_counter()
    listening = _Listening(began)
    with anyio.move_on_after(_LONGEST_ANSWER_SECONDS) as patience:
        async with aclosing(agent.send(words, run_loop_id)) as events:
            await listening.to(events)
    if patience.cancelled_caught:
        listening.problem = f"there was no answer after {_LONGEST_ANSWER_SECONDS:.0f} s"
    return listening.heard()


class _Listening:
    def __init__(self, began: float) -> None:
        self._began = began
        self._first: float | None = None
        self._said: list[str] = []
        self._tools: list[str] = []
        self._route = ""
        self.problem = ""

    async def to(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            match event.body:
                case MessageDelta(text=text) if text.strip():
                    self._begins()
                case MessageCompleted(message=message):
                    if message.text.strip():
                        self._begins()
                        self._said.append(message.text)
                    self._tools += [call.name for call in message.tool_calls]
                case InputRequired(prompt=prompt):
                    self._begins()
                    self._said.append(prompt)
                case RouteDecided(route=route):
                    self._route = f"{route.decision} ({route.method})"
                case RunLoopFailed(problem=problem):
                    self.problem = problem.in_words()
                case ErrorOccurred(problem=problem) if event.seq is None:  # nothing comes after it
                    self.problem = problem.in_words()
                case RunLoopCancelled(reason=reason):
                    self.problem = reason
                case _:
                    pass

    def heard(self) -> Heard:
        return Heard(
            answer="\n\n".join(self._said),
            whole_ms=self._since(),
            first_token_ms=self._first,
            tools=tuple(self._tools),
            route=self._route,
            problem=self.problem,
        )

    def _begins(self) -> None:
        if self._first is None:
            self._first = self._since()

    def _since(self) -> float:
        return round(1000 * (time.perf_counter() - self._began), 1)


async def _end_all(agent: Agent) -> None:
    """Complete every run loop, and wait until it is in long-term memory with its vectors.

    Raises:
        BenchmarkError: it does not get there.
    """
    for state in agent.memory.open_states("me"):
        try:
            await agent.complete(state.id)
        except ConflictError:  # it waits for a person, who goes away instead
            await agent.cancel(state.id)
    problem = await agent.memory.archivist.drain()
    if problem is not None:
        raise BenchmarkError(
            f"what was said does not get into long-term memory: {problem.in_words()}",
            advice="`rondo doctor` checks the embedder.",
        )


async def converse_with_bare_model(llm: LLM, conversation: Conversation) -> list[Heard]:
    """Have a conversation with the model alone: it is shown all turns, also those of long before.

    A turn that fails is heard as such, and left out of what is shown later.
    """
    shown = [Message.system(BARE_PROMPT)]
    heard = []
    for turn in conversation.turns:
        asked = [*shown, Message.user(turn.say)]
        began = time.perf_counter()
        first: list[float] = []

        def note(part: StreamPart, began: float = began, first: list[float] = first) -> None:
            if isinstance(part, TextDelta) and part.text.strip() and not first:
                first.append(_since(began))

        try:
            answer, problem = (await generate(llm, asked, on_part=note)).message.text, ""
        except LLMError as error:
            answer, problem = "", error.problem().in_words()
        heard.append(
            Heard(
                answer=answer,
                whole_ms=_since(began),
                first_token_ms=first[0] if first else None,
                tools=None,
                problem=problem,
            )
        )
        if not problem:
            shown = [*asked, Message.assistant(answer)]
    return heard


def _since(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 1)
