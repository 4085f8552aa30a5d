"""One call of a model: its stream merged into one message, its usage as events, its retries.

A call is made again after an exponential back-off with jitter, or when the endpoint says. A model
whose answer was cut off is asked to go on with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, cast

import anyio
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from service.domain.conversation.messages import FinishReason, Message, ToolCall
from service.domain.conversation.stream_parts import (
    MessageAssembler,
    StreamPart,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.conversation.token_estimates import BYTES_PER_TOKEN, tool_tokens
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMError, LLMStreamError, Problem
from service.domain.history.events import (
    ErrorOccurred,
    EventBody,
    IterationAbandoned,
    ToolFinished,
    Usage,
    UsagePurpose,
)
from service.domain.history.state import RunLoopState
from service.domain.usage import Prices
from service.llm.protocol import LLM
from service.llm.stop_notices import WithoutEcho


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between the tries: random ones, up to a bound that doubles with each."""

    base_seconds: float = 0.5
    """The bound of the first."""
    max_seconds: float = 20
    """The bound of all."""
    longest_wait_seconds: float = 60
    """How long a wait is waited for that the endpoint itself asks for; a longer one fails at once:
    that is for the person to know."""


T = TypeVar("T")


async def retrying(
    call: Callable[[], Awaitable[T]],
    *,
    max_retries: int,
    backoff: Backoff = Backoff(),
    on_retry: Callable[[int, float, LLMError], Awaitable[None]],
) -> T:
    """Make a call, and make it again while it fails with a retryable `LLMError`.

    Args:
        call: what to do.
        max_retries: how often to do it again.
        backoff: how long to wait before each time; an endpoint that asks for a longer wait than
            its ``longest_wait_seconds`` is not waited for.
        on_retry: told before each wait: which attempt failed (from 1), the seconds to wait, why.

    Raises:
        LLMError: the last failure.
    """

    def is_worth_another_try(error: BaseException) -> bool:
        if not isinstance(error, LLMError) or not error.retryable:
            return False
        return (error.retry_after or 0) <= backoff.longest_wait_seconds

    async def before_sleep(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, LLMError):
            await on_retry(state.attempt_number, state.upcoming_sleep, error)

    # Most calls succeed at once: the machinery of retrying is set up for those that do not.
    try:
        return await call()
    except LLMError as error:
        if not max_retries or not is_worth_another_try(error):
            raise
        failed = [error]

    async def once() -> T:
        if failed:
            raise failed.pop()
        return await call()

    attempts = AsyncRetrying(
        retry=retry_if_exception(is_worth_another_try),
        stop=stop_after_attempt(max_retries + 1),
        wait=_Wait(backoff),
        sleep=anyio.sleep,
        before_sleep=before_sleep,
        reraise=True,
    )
    return await attempts(once)


class _Wait:
    def __init__(self, backoff: Backoff) -> None:
        self._growing = wait_random_exponential(
            multiplier=backoff.base_seconds, max=backoff.max_seconds
        )

    def __call__(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, LLMError) else None
        return self._growing(state) if asked is None else max(asked, 0.0)


_MOST_TOKENS = 10**12


def usage_of(
    generated: Generated, prices: Prices | None, *, purpose: UsagePurpose = "answer"
) -> Usage:
    """The usage event of a call, with its cost where there are prices."""
    reported = generated.usage
    used = TokenUsage(
        reported.model,
        _sane(reported.input_tokens),
        _sane(reported.output_tokens),
        cached_input_tokens=_sane(reported.cached_input_tokens),
    )
    return Usage(
        model=used.model,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_input_tokens=used.cached_input_tokens,
        cost=None if prices is None else prices.cost(used),
        purpose=purpose,
        estimated=generated.estimated,
    )


def _sane(count: int) -> int:
    """What an endpoint reports, within what can be: an answer must not be lost to a number."""
    return min(max(count, 0), _MOST_TOKENS)


OnPart = Callable[[StreamPart], None]
OnCall = Callable[[ToolCall], None]


@dataclass(frozen=True, slots=True)
class Generated:
    """What a call gave."""

    message: Message
    """The assistant message, with text, reasoning and tool calls."""
    usage: TokenUsage
    """What it used."""
    estimated: bool = False
    """Whether the endpoint did not say what it used: then it is told from the words."""
    response_id: str | None = None
    """Under which the provider knows the answer."""
    finish_reason: FinishReason | None = None
    """Why the answer is not whole."""
    cut_calls: frozenset[str] = frozenset()
    """Of an answer that is not whole: the ids of tool calls in which it can have broken off."""


async def generate(
    llm: LLM,
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolDefinition] = (),
    response_schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    size: int | None = None,
    on_part: OnPart | None = None,
    on_call: OnCall | None = None,
) -> Generated:
    """Call the model once and merge what it streams.

    Args:
        llm: the model.
        messages: the conversation.
        tools: what it may call.
        response_schema: what its text must satisfy, as JSON Schema.
        max_tokens: bound of the answer.
        temperature: None for the client's default.
        size: bytes of all messages, see `Message.size`, where the caller knows it.
        on_part: told of each piece as it arrives; must not block.
        on_call: told of each tool call as soon as its arguments are a whole JSON object, which may
            be before the stream ends; must not block.

    Raises:
        LLMError: the call failed, broke off, or gave neither words nor a tool call.
    """
    assembler = MessageAssembler()
    stream = llm.stream(
        messages,
        tools=tools,
        response_schema=response_schema,
        max_tokens=max_tokens,
        temperature=temperature,
    )
    own = WithoutEcho()

    def add(part: StreamPart) -> None:
        assembler.add(part)
        if on_part is not None:
            on_part(part)

    # Streams are async generators: closing them here, not whenever they are collected, is what
    # ends the request when we are cancelled.
    async with aclosing(cast("Any", stream)):
        async for part in stream:
            for each in own.passing(part):
                add(each)
            if on_call is not None and isinstance(part, ToolCallDelta):
                call = assembler.completed_call(part.index)
                if call is not None:
                    on_call(call)
    for each in own.rest():
        add(each)
    message = assembler.message()
    if not message.text.strip() and not message.tool_calls:
        raise LLMStreamError(
            f"{llm.model} gave neither words nor a tool call",
            advice="Try again; if it goes on, choose another model.",
        )
    usage = assembler.usage
    estimated = usage is None or not (usage.input_tokens or usage.output_tokens)
    if usage is None or estimated:
        # Zeros would be wrong, and a budget would never be used up.
        if size is None:
            size = sum(map(_size, messages))
        said = message.size + len(message.reasoning.encode("utf-8", "replace"))
        usage = estimated_usage(llm.model, size, tools, said)
    return Generated(
        message,
        usage,
        estimated=estimated,
        response_id=assembler.response_id,
        finish_reason=assembler.finish_reason,
        cut_calls=assembler.cut_calls() if assembler.finish_reason else frozenset(),
    )


_size = attrgetter("size")  # histories are long, and this is faster than a comprehension


def estimated_usage(
    model: str, size: int, tools: Sequence[ToolDefinition], said: int
) -> TokenUsage:
    """About what a call used of which the endpoint does not tell it.

    Args:
        model: its name.
        size: bytes of all messages, see `Message.size`.
        tools: what was offered.
        said: bytes of the answer, reasoning included.
    """
    given = size // BYTES_PER_TOKEN + tool_tokens(tools)
    return TokenUsage(model, max(1, given), max(1, said // BYTES_PER_TOKEN))


CONTINUE = (
    "[Your answer was cut off at its limit of tokens. Go on exactly where it stopped, if need be in"
    " the middle of a word: what you write now is put right behind it. Repeat nothing of it, and do"
    " not mention this request.]"
)
_OPENING = 100
"""So many characters that are the same as those of the answer's beginning: it is begun anew."""
_BROKE_OFF: dict[FinishReason, str] = {
    "length": "Your answer reached its limit of tokens",
    "content_filter": "A filter of the endpoint's stopped your answer",
}


def repeats(state: RunLoopState, message: Message) -> bool:
    """Whether what is to go on with an answer brings nothing new.

    Args:
        state: while the model is being asked to go on.
        message: what it said.
    """
    if not state.continuations or message.tool_calls:
        return False
    said = message.text.strip()
    # Of each part the message, and the words that asked for the next one.
    asked = state.history[-2 * state.continuations :]
    parts = [each.text for each in asked if each.role == "assistant"]
    whole = "".join(parts).strip()
    begun_anew = len(whole) >= _OPENING and said.startswith(whole[:_OPENING])
    return begun_anew or whole.endswith(said) or any(said == part.strip() for part in parts)


def given_up(state: RunLoopState) -> tuple[EventBody, ...]:
    """That the model only repeats itself: its answer stays as far as it came."""
    problem = Problem(
        kind="answer-repeats",
        title="The model did not go on with its answer",
        detail="asked for the rest of an answer that was cut off, it repeated what it had said",
        advice="Ask for the rest in words of your own, or for a shorter answer.",
    )
    return (ErrorOccurred(problem=problem), IterationAbandoned(index=state.iteration_count - 1))


def without_cut(calls: Iterable[ToolCall], generated: Generated) -> list[ToolFinished]:
    """The results of those tool calls in which an answer broke off: half a call is not run."""
    reason = generated.finish_reason
    if reason is None:
        return []
    content = (
        f"Not run: {_BROKE_OFF[reason]} in the middle of this call. Call again with less in it,"
        " or in several calls, one after another."
    )
    return [
        ToolFinished(call_id=call.id, name=call.name, content=content, is_error=True, notice=True)
        for call in calls
        if call.id in generated.cut_calls
    ]
