"""Executors: each carries out one kind of instruction, and reports what happened as events.

An executor is given the loop that it works on, and tells it each event with `Loop.emit`, which
returns once the event is journaled: so each is on record before the next begins. (Async generators
would read as well, but may not yield from inside a task group, and tools run side by side.)

Executors can be replaced: those given to the agent go before the built-in ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import anyio

from service.agent.context import build_context, system_message
from service.agent.generate import Generated, generate
from service.agent.llm.protocol import LLM
from service.agent.recall import recall
from service.agent.retry import retrying
from service.agent.tuned import RECALL_SHARE
from service.domain.errors import LLMError, RondoError
from service.domain.events import (
    ErrorOccurred,
    EventBody,
    InputRequired,
    IterationStarted,
    LLMRetry,
    MemoryRecalled,
    MessageCompleted,
    MessageDelta,
    ReasoningDelta,
    RunLoopFailed,
    RunLoopIdle,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.ids import new_id
from service.domain.instructions import (
    CallLLM,
    CallTools,
    Finish,
    InstructionKind,
    RequestHumanApprove,
)
from service.domain.messages import Message, TextPart, ToolCall
from service.domain.run_loops import RunLoop
from service.domain.state import PendingCall, RunLoopState
from service.domain.stream import StreamPart, TextDelta, ThinkDelta
from service.domain.tools import ToolContext
from service.memory.protocol import MemoryReader
from service.tools.registry import ToolRegistry


class Loop(Protocol):
    """A run loop as an executor sees it."""

    @property
    def state(self) -> RunLoopState:
        """The fold of all that was emitted."""
        ...

    async def emit(
        self, *bodies: EventBody, durable: bool = False, if_last_seq: int | None = None
    ) -> None:
        """Journal events, in one transaction.

        Raises:
            ConflictError: with `if_last_seq`, when something else was journaled since.
        """
        ...

    def stream(self, body: EventBody) -> None:
        """Show listeners a transient event."""
        ...


Executor = Callable[[Any, Loop], Awaitable[None]]
"""Called with an instruction of its kind and the loop."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """What the built-in executors work with."""

    llm: LLM
    tools: ToolRegistry
    memory: MemoryReader
    memory_ready: Callable[[], Awaitable[None]]
    """Waits until memory can be searched by meaning, or for as long as that is worth waiting."""
    load: Callable[[str], Awaitable[RunLoop | None]]
    """Gives a run loop by its id, also one that has just ended; None when it is gone."""
    instructions: str = ""
    recall_tokens: int = 800
    answer_tokens: int = 2048
    max_retries: int = 3


def builtin_executors(bench: Workbench) -> dict[InstructionKind, Executor]:
    """One executor for each kind of instruction."""
    return {
        "call_llm": partial(call_llm, bench),
        "call_tools": partial(call_tools, bench),
        "request_human_approve": request_human_approve,
        "finish": finish,
    }


async def call_llm(bench: Workbench, instruction: CallLLM, loop: Loop) -> None:
    """Observe what came in, ask the model, and record what it said."""
    await _observe(bench, loop)
    system = system_message(
        loop.state.created_at,
        instructions=bench.instructions,
        last_answer=not instruction.offer_tools,
    )
    tools = bench.tools.definitions() if instruction.offer_tools else ()
    budget = bench.llm.context_tokens - bench.answer_tokens - _tool_cost(tools)
    messages = build_context(loop.state, system=system, budget_tokens=budget)

    def show(part: StreamPart) -> None:
        if isinstance(part, TextDelta):
            loop.stream(MessageDelta(text=part.text))
        elif isinstance(part, ThinkDelta) and part.think:
            loop.stream(ReasoningDelta(text=part.think))

    async def tell(attempt: int, delay: float, error: LLMError) -> None:
        await loop.emit(LLMRetry(attempt=attempt, delay_seconds=delay, problem=error.problem()))

    try:
        generated = await retrying(
            lambda: generate(bench.llm, messages, tools=tools, on_part=show),
            max_retries=bench.max_retries,
            on_retry=tell,
        )
    except LLMError as error:
        await loop.emit(RunLoopFailed(problem=error.problem()))
        return
    message = generated.message
    if not instruction.offer_tools:
        message = _without_calls(message)
    await loop.emit(MessageCompleted(message=message), _usage(bench, generated))


async def _observe(bench: Workbench, loop: Loop) -> None:
    state = loop.state
    if state.thinking and not state.unseen:
        return  # a crash interrupted this very iteration: it is taken up again
    bodies: list[EventBody] = []
    if not state.iterations:
        await bench.memory_ready()
        try:
            budget = min(bench.recall_tokens, int(bench.llm.context_tokens * RECALL_SHARE))
            known = state.predecessor_id and await bench.load(state.predecessor_id)
            pieces = await recall(bench.memory, state, predecessor=known or None, max_tokens=budget)
        except RondoError as error:
            # Remembering is a help, not a condition: the answer goes on, the person is told.
            bodies.append(ErrorOccurred(problem=error.problem()))
        else:
            if pieces:
                bodies.append(MemoryRecalled(recollections=pieces))
    await loop.emit(*bodies, IterationStarted(index=len(state.iterations)))


def _tool_cost(tools: Any) -> int:
    return sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in tools) // 3


def _usage(bench: Workbench, generated: Generated) -> Usage:
    usage = generated.usage
    return Usage(
        model=usage.model if usage else bench.llm.model,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
    )


def _without_calls(message: Message) -> Message:
    if message.text.strip():
        return Message(role="assistant", content=message.content)
    notice = "I have used all the steps that I may take, and have no answer yet."
    return Message(role="assistant", content=(*message.content, TextPart(text=notice)))


async def call_tools(bench: Workbench, instruction: CallTools, loop: Loop) -> None:
    """Run the calls side by side; each comes to exactly one result, whatever happens."""
    pending = {waiting.call.id: waiting for waiting in loop.state.pending}
    failures: list[RondoError] = []

    async def work(waiting: PendingCall) -> None:
        try:
            await _call_tool(bench, waiting, loop)
        except RondoError as error:  # out of the group it would come wrapped, and stop the others
            failures.append(error)

    async with anyio.create_task_group() as group:
        for call in instruction.calls:
            group.start_soon(work, pending[call.id])
    if failures:
        raise failures[0]


async def _call_tool(bench: Workbench, waiting: PendingCall, loop: Loop) -> None:
    call = waiting.call
    tool = bench.tools.get(call.name)
    # A tool that is gone since it began may have had any effect.
    has_side_effects = tool is None or tool.effect not in ("read_only", "idempotent")
    refusal = _refusal(waiting, has_side_effects=has_side_effects)
    if refusal is not None:
        await loop.emit(_finished(call, refusal, is_error=True))
        return
    key = f"{loop.state.id}/{len(loop.state.iterations) - 1}/{call.id}"
    if not waiting.started:
        started = ToolStarted(
            call_id=call.id, name=call.name, arguments=call.arguments, idempotency_key=key
        )
        await loop.emit(started, durable=has_side_effects)
    context = ToolContext(owner=loop.state.owner, run_loop_id=loop.state.id, idempotency_key=key)
    result = await bench.tools.execute(call, context)
    await loop.emit(_finished(call, result.content, is_error=result.is_error))


def _refusal(waiting: PendingCall, *, has_side_effects: bool) -> str | None:
    """Why a call is not run, in words for the model; None when it is."""
    if waiting.approved is False:
        reason = f" They said: {waiting.denial}" if waiting.denial else ""
        return f"The person did not allow this call.{reason}"
    if waiting.started and has_side_effects:
        return (
            "The assistant was interrupted while this tool ran: whether it did its work is"
            " unknown. Check before you call it again."
        )
    return None


def _finished(call: ToolCall, content: str, *, is_error: bool) -> ToolFinished:
    return ToolFinished(call_id=call.id, name=call.name, content=content, is_error=is_error)


async def request_human_approve(instruction: RequestHumanApprove, loop: Loop) -> None:
    """Ask a person whether these calls may run; the loop waits, across restarts too."""
    calls = instruction.calls
    what = "; ".join(f"{call.name} {call.arguments}" for call in calls)
    await loop.emit(
        InputRequired(
            request_id=new_id(),
            kind="approve",
            prompt=f"May this run? {what}",
            tool_calls=calls,
        ),
        durable=True,
    )


async def finish(instruction: Finish, loop: Loop) -> None:
    """Rest, unless something has come in meanwhile."""
    await loop.emit(RunLoopIdle(), if_last_seq=loop.state.last_seq)
