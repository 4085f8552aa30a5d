"""Compaction: something shorter in the place of the oldest rounds.

It is one event: a crash or a cancellation before it loses nothing, and it begins anew. What is
summarised stays in the journal, and is handed to long-term memory now, so that the anchors in the
summaries can be expanded.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from service.domain.conversation.instructions import Compact
from service.domain.conversation.messages import Message
from service.domain.errors import (
    BudgetError,
    ConflictError,
    LLMContextError,
    LLMError,
    Problem,
)
from service.domain.history.events import (
    CompactionFinished,
    CompactionStarted,
    ErrorOccurred,
    LLMRetry,
)
from service.domain.history.state import RunLoopState
from service.llm.generate import retrying
from service.loop.context.compaction_plan import (
    Piece,
    Room,
    difference,
    plan,
    plan_merge,
    summarised,
)
from service.loop.context.model_context import (
    estimated_next_call,
    messages_tokens,
    next_call_tokens,
)
from service.loop.context.shortening import brief
from service.loop.context.summaries import extract, request
from service.loop.execution import Loop
from service.loop.executor_deps import ExecutorDeps
from service.tuning import COMPACT_AT_ONCE, COMPACT_TO, MATERIAL_SHARE

_LEAST_RATIO = 0.5


async def compact(deps: ExecutorDeps, instruction: Compact, loop: Loop) -> None:
    """Summarise what is old, by the model or, where it is not to be had, by extraction."""
    state = loop.state
    history = list(state.history)
    estimate = estimated_next_call(deps, state)
    tokens = instruction.tokens or next_call_tokens(deps, state)
    window = deps.model(state).window_tokens
    limit = instruction.limit or window
    ratio = _tokens_per_estimated(deps, tokens, state, estimate)
    room = _room(deps, state, instruction.limit, estimate=estimate, ratio=ratio)
    writer = _Writer(deps, loop, int(window * MATERIAL_SHARE / max(ratio, 1)))
    pieces = plan(state, room)
    if pieces or plan_merge(history, room):
        await loop.emit(CompactionStarted(tokens=tokens, limit=limit))
        deps.remember(state)
        history = summarised(history, await writer.write(history, pieces))
        if (merged := plan_merge(history, room)) is not None:
            history = summarised(history, await writer.write(history, [merged]))
        with anyio.move_on_after(deps.archive_seconds):
            await deps.remembered()
    count, replacement = difference(state.history, history)
    after = (room.beside + messages_tokens(history)) / estimate if count else 1.0
    summary = CompactionFinished(
        messages=count,
        replacement=replacement,
        method="model" if writer.by_model else "extract",
        tokens_before=tokens,
        tokens_after=int(tokens * after),
    )
    await _take_over(loop, summary, of=state)


def can_compact(deps: ExecutorDeps, state: RunLoopState) -> bool:
    """Whether there is anything that a summary, wanted by a person, would make shorter."""
    estimate = estimated_next_call(deps, state)
    return bool(plan(state, _room(deps, state, None, estimate=estimate, ratio=1.0)))


def _room(
    deps: ExecutorDeps, state: RunLoopState, limit: int | None, *, estimate: int, ratio: float
) -> Room:
    """How long the call may be; without a limit it is to be as short as it can be made."""
    most = int((limit or deps.model(state).window_tokens) / ratio)
    return Room(
        beside=estimate - messages_tokens(state.history),
        limit=most,
        target=0 if limit is None else int(most * COMPACT_TO),
        urgent=state.overflowed or limit is None,
    )


async def _take_over(loop: Loop, summary: CompactionFinished, *, of: RunLoopState) -> None:
    """Put the summary in its place, unless the history is not what was summarised any more.

    A message may have been moved away, or words forgotten, meanwhile; then the brain looks again.
    """
    while loop.state.history == of.history:
        last_seq = loop.state.last_seq
        try:
            await loop.emit(summary, if_last_seq=last_seq)
        except ConflictError:
            if loop.state.last_seq == last_seq:
                raise  # the loop has ended
        else:
            return


def too_long(deps: ExecutorDeps, error: LLMContextError) -> Problem:
    """What to tell a person when the conversation is too long, and nothing more is to be won."""
    problem = error.problem()
    if deps.compaction == "off":
        advice = (
            "Set agent.compaction to auto, so that what is old is summarised in time; or go on in"
            " a new run loop, which can look up what was said here."
        )
    else:
        advice = (
            "Send less at once, or go on in a new run loop, which can look up what was said here."
            " If the model takes less than llm.context_tokens says, correct that setting."
        )
    return problem.model_copy(update={"advice": advice})


def _tokens_per_estimated(
    deps: ExecutorDeps, tokens: int, state: RunLoopState, estimate: int
) -> float:
    """How many tokens there really are for an estimated one, as far as the model has told."""
    ratio = tokens / estimate
    if state.overflowed:
        ratio = max(ratio, deps.model(state).llm.context_tokens / estimate)
    return max(ratio, _LEAST_RATIO)


class _Writer:
    """Writes summaries, several side by side."""

    def __init__(self, deps: ExecutorDeps, loop: Loop, material_tokens: int) -> None:
        self._deps = deps
        self._loop = loop
        self._material_tokens = material_tokens
        self._ask_model = deps.compaction == "model"
        self.by_model = False
        """Whether the model wrote any of them."""

    async def write(self, history: Sequence[Message], pieces: Sequence[Piece]) -> dict[Piece, str]:
        """A summary of each piece.

        Raises:
            StorageError: what was used could not be journaled.
        """
        texts: dict[Piece, str] = {}
        failures: list[Exception] = []
        limiter = anyio.CapacityLimiter(COMPACT_AT_ONCE)

        async def work(piece: Piece) -> None:
            async with limiter:
                if failures:
                    return
                try:
                    texts[piece] = await self._text(history[slice(*piece.span)], piece.max_tokens)
                except Exception as error:  # noqa: BLE001  out of the group it would come wrapped
                    failures.append(error)

        async with anyio.create_task_group() as group:
            for piece in pieces:
                group.start_soon(work, piece)
        if failures:
            raise failures[0]
        return texts

    async def _text(self, messages: Sequence[Message], max_tokens: int) -> str:
        text = ""
        if self._ask_model:
            try:
                text = await self._asked(messages, max_tokens)
            except (LLMError, BudgetError) as error:
                await self._do_without(error)
        self.by_model = self.by_model or bool(text)
        return brief(text, max_tokens) if text else extract(messages, max_tokens=max_tokens)

    async def _asked(self, messages: Sequence[Message], max_tokens: int) -> str:
        deps, loop = self._deps, self._loop
        asked = request(messages, max_tokens=max_tokens, material_tokens=self._material_tokens)
        asked = await deps.hooks.before_model_call(loop, asked)
        model = next(deps.models.turns(loop.state.next_model)).model
        async with deps.account(loop.state, "compaction") as account:
            generated = await retrying(
                lambda: account.generate(model.llm, asked, prices=model.prices),
                max_retries=model.max_retries,
                backoff=model.backoff,
                on_retry=self._again,
            )
            await loop.emit(*account.take_usage())
        return generated.message.text.strip()

    async def _again(self, attempt: int, delay: float, error: LLMError) -> None:
        problem = error.problem()
        await self._loop.emit(LLMRetry(attempt=attempt, delay_seconds=delay, problem=problem))

    async def _do_without(self, error: LLMError | BudgetError) -> None:
        if not self._ask_model:
            return  # another one has told it
        # One piece may be too long for the model; any other failure would meet the next one too.
        self._ask_model = isinstance(error, LLMContextError)
        problem = Problem(
            kind="compaction",
            title="Old parts of the conversation were shortened without the language model",
            detail=error.problem().in_words(),
            advice="Nothing is lost: the words themselves are remembered.",
        )
        await self._loop.emit(ErrorOccurred(problem=problem))
