"""Asking the model: observe what came in, stream its answer, and record what it said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from service.domain.conversation.instructions import CallLLM
from service.domain.conversation.messages import Message, NotePart, TextPart, ToolCall
from service.domain.conversation.stream_parts import StreamPart, TextDelta, ThinkDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import (
    BudgetError,
    ConflictError,
    LLMContextError,
    LLMError,
    Problem,
)
from service.domain.history.events import (
    ErrorOccurred,
    EventBody,
    IterationAbandoned,
    IterationStarted,
    LLMFallback,
    LLMRetry,
    MessageCompleted,
    MessageDelta,
    ReasoningDelta,
    RunLoopFailed,
)
from service.domain.history.state import RunLoopState
from service.llm.generate import (
    CONTINUE,
    Generated,
    given_up,
    repeats,
    retrying,
    without_cut,
)
from service.llm.named_models import NamedModel, Turn, is_down
from service.llm.protocol import LLM, size_of, takes_images
from service.llm.spending.accounts import Account
from service.llm.stop_notices import GO_ON, STOPPED
from service.loop.claims.unsupported_claims import DoneByTool, claimed_deeds, unsupported
from service.loop.context.model_context import build_context
from service.loop.context.offered_tools import offered_tools
from service.loop.context.system_prompt import opening_of
from service.loop.execution import Loop
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors.call_tools import begin_early, started
from service.loop.executors.compact import too_long
from service.loop.recall.personal_messages import is_personal
from service.loop.recall.recall import recall_for

ENHANCE = (
    "[Look over your answer once more, as the person would read it. If something is wrong, missing"
    " or unclear, give the whole answer anew, better; otherwise give it again unchanged. Do not"
    " mention this request.]"
)
_NOTHING_FOUND = "I have used all the steps that I may take, and have no answer yet."


async def call_llm(deps: ExecutorDeps, instruction: CallLLM, loop: Loop) -> None:
    """Observe what came in, ask the model, and record what it said."""
    landing = [each for each in loop.state.unseen if each.id in instruction.message_ids]
    if not await _observe(deps, instruction, loop):
        return  # a message was moved away just now: the brain looks again
    shows_images = any(each.message.images for each in landing)
    async with deps.account(loop.state, "answer") as account:
        await _answer(deps, instruction, account, loop, shows_images=shows_images)


async def _answer(
    deps: ExecutorDeps, instruction: CallLLM, account: Account, loop: Loop, *, shows_images: bool
) -> None:
    """Ask the model, or those that stand in for it, and record what came."""
    tools = offered_tools(deps, loop.state) if instruction.last_answer is None else ()
    asked, error = "", None
    for turn in deps.models.turns(loop.state.model):
        llm = turn.model.llm
        for name, problem in turn.instead.items() if instruction.message_ids else ():
            await loop.emit(LLMFallback(model=name, fallback=turn.name, problem=problem))
        if error is not None:
            await loop.emit(LLMFallback(model=asked, fallback=turn.name, problem=error.problem()))
        if shows_images and not takes_images(llm):
            await loop.emit(ErrorOccurred(problem=_unseen(llm)))
        messages = await _prompt(deps, instruction, tools, turn.model, loop)
        try:
            generated = await _ask(deps, turn, messages, tools, account, loop)
        except BudgetError as refused:
            await fail(deps, refused, account, loop)
            return
        except LLMError as failed:
            deps.models.failed(turn.name, failed)
            asked, error = turn.name, failed
            if turn.is_last or not is_down(failed):
                await fail(deps, failed, account, loop)
                return
        else:
            deps.models.answered(turn.name)
            await _record(deps, instruction, generated, account, loop)
            return


async def _prompt(
    deps: ExecutorDeps,
    instruction: CallLLM,
    tools: Sequence[ToolDefinition],
    model: NamedModel,
    loop: Loop,
) -> Sequence[Message]:
    llm = model.llm
    small = size_of(llm) != "large"
    personal = not small or await is_personal(loop.state, embed=deps.embed_for_care)
    messages = build_context(
        loop.state,
        opening=opening_of(
            deps, loop.state, llm, personal=personal, last_answer=instruction.last_answer
        ),
        tools=tools,
        window_tokens=model.window_tokens,
        small=small,
    )
    return await deps.hooks.before_model_call(loop, messages)


async def _record(
    deps: ExecutorDeps,
    instruction: CallLLM,
    generated: Generated,
    account: Account,
    loop: Loop,
) -> None:
    message = await deps.hooks.after_model_call(loop, generated.message)
    if instruction.last_answer is not None:
        message = _without_calls(message)
    loop.early_calls.keep(message.tool_calls)
    if repeats(loop.state, message):
        await loop.emit(*account.take_usage(), *given_up(loop.state))
        return
    has_own_words = bool(message.tool_calls or generated.message.text.strip())
    completed = MessageCompleted(
        message=message,
        finish_reason=generated.finish_reason if has_own_words else None,
        response_id=generated.response_id,
    )
    begun = [started(deps, call, loop.state) for call in loop.early_calls.begun(message.tool_calls)]
    cut = without_cut(message.tool_calls, generated)
    claims = _unsupported_claims(deps, message, loop.state)
    await loop.emit(completed, *account.take_usage(), *begun, *cut, *claims)


def _unsupported_claims(
    deps: ExecutorDeps, message: Message, state: RunLoopState
) -> list[EventBody]:
    """What a person is told where an answer says that it did what no tool has done."""
    if message.tool_calls or not claimed_deeds(message.text):
        return []
    done: list[DoneByTool] = []
    for iteration in state.run_loop().iterations:
        succeeded = {
            each.id for each in iteration.tool_results if not (each.is_error or each.notice)
        }
        for call in iteration.tool_calls:
            tool = deps.tools.get(call.name)
            if call.id in succeeded and (tool is None or tool.effect != "read_only"):
                described = tool.definition.description if tool else ""
                done.append(DoneByTool(call.name, f"{described} {call.arguments}"))
    problem = unsupported(message.text, done)
    return [] if problem is None else [ErrorOccurred(problem=problem)]


def _unseen(llm: LLM) -> Problem:
    return Problem(
        kind="images-not-shown",
        title="The model cannot see images",
        detail=f"{llm.model} is told that there is one, and answers by the words alone",
        advice="Set up a model that takes images, and send the message again.",
    )


async def _observe(deps: ExecutorDeps, instruction: CallLLM, loop: Loop) -> bool:
    """Begin an iteration; whether all that it was to observe is still there."""
    state = loop.state
    if state.thinking and not instruction.message_ids:
        return True  # a crash interrupted this very iteration: it is taken up again
    recalled: list[EventBody] = []
    if instruction.message_ids:
        recalled = await recall_for(deps, state, instruction.message_ids)
    iteration = IterationStarted(
        index=state.iteration_count,
        message_ids=instruction.message_ids,
        nudge=_nudge(deps, state, instruction),
        continues=instruction.continues and not instruction.message_ids,
    )
    while set(instruction.message_ids) <= {unseen.id for unseen in loop.state.unseen}:
        last_seq = loop.state.last_seq
        try:
            await loop.emit(*recalled, iteration, if_last_seq=last_seq)
        except ConflictError:
            if loop.state.last_seq == last_seq:
                raise  # the loop has ended
        else:
            return True
    return False


def _nudge(deps: ExecutorDeps, state: RunLoopState, instruction: CallLLM) -> str | None:
    if instruction.enhance:
        return deps.enhance_prompt.strip() or ENHANCE
    if instruction.continues and not instruction.message_ids:
        return CONTINUE
    return GO_ON if state.cut and not instruction.message_ids else None


@dataclass(slots=True)
class _Showing:
    """Shows an answer as it streams, and keeps its words in case it is stopped."""

    loop: Loop
    words: list[str] = field(default_factory=list)

    def part(self, part: StreamPart) -> None:
        if isinstance(part, TextDelta):
            self.words.append(part.text)
            self.loop.stream(MessageDelta(text=part.text))
        elif isinstance(part, ThinkDelta) and part.think:
            self.loop.stream(ReasoningDelta(text=part.think))

    async def again(self, attempt: int, delay: float, error: LLMError) -> None:
        self.words.clear()
        self.loop.early_calls.drop()
        await self.loop.emit(
            LLMRetry(attempt=attempt, delay_seconds=delay, problem=error.problem())
        )

    async def stop(self) -> None:
        """The person stopped the answer: what they have read of it stays."""
        text = "".join(self.words).strip()
        if self.loop.stopping not in ("cancel", "interrupt") or not text:
            return
        message = Message(role="assistant", content=(TextPart(text=text), NotePart(note=STOPPED)))
        with anyio.CancelScope(shield=True):
            await self.loop.emit(MessageCompleted(message=message, cut=True))


async def _ask(
    deps: ExecutorDeps,
    turn: Turn,
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition],
    account: Account,
    loop: Loop,
) -> Generated:
    showing = _Showing(loop)
    state = loop.state
    offered = {tool.name for tool in tools}

    def on_call(call: ToolCall) -> None:
        if call.name in offered:
            begin_early(deps, loop, call)

    retries = turn.model.max_retries
    whole = len(messages) == 1 + len(state.history)  # nothing was left out
    try:
        return await retrying(
            lambda: account.generate(
                turn.model.llm,
                messages,
                prices=turn.model.prices,
                tools=tools,
                size=messages[0].size + state.history_size if whole else None,
                on_part=showing.part,
                on_call=on_call,
            ),
            # Whoever stands in is asked sooner than one that is down for the fourth time.
            max_retries=retries if turn.is_last else min(retries, 1),
            backoff=turn.model.backoff,
            on_retry=showing.again,
        )
    except (LLMError, BudgetError):
        loop.early_calls.drop()
        raise
    except anyio.get_cancelled_exc_class():
        await showing.stop()
        raise


async def fail(
    deps: ExecutorDeps, error: LLMError | BudgetError, account: Account, loop: Loop
) -> None:
    """The model has not answered, or may not be asked: the loop fails, unless it can do without."""
    used = account.take_usage()
    if _was_answered(loop.state):
        abandoned = IterationAbandoned(index=loop.state.iteration_count - 1)
        await loop.emit(*used, ErrorOccurred(problem=error.problem()), abandoned)
        return
    if not isinstance(error, LLMContextError):
        await loop.emit(*used, RunLoopFailed(problem=error.problem()))
    elif deps.compaction != "off" and not loop.state.compacted:
        # The brain has the history compacted, and the model is asked again.
        await loop.emit(*used, ErrorOccurred(problem=error.problem()))
    else:
        await loop.emit(*used, RunLoopFailed(problem=too_long(deps, error)))


def _was_answered(state: RunLoopState) -> bool:
    """Whether there is an answer already, which the model was only asked to better, or to go on
    with."""
    history = state.history
    if len(history) < 2:
        return False
    answer, asked = history[-2], history[-1]
    is_nudge = asked.role == "user" and not asked.text and bool(asked.notes)
    return is_nudge and answer.role == "assistant" and not answer.notes


def _without_calls(message: Message) -> Message:
    if message.text.strip():
        return Message(role="assistant", content=message.content)
    return Message(role="assistant", content=(*message.content, TextPart(text=_NOTHING_FOUND)))
