"""The worker of consolidation: when notes are written, and what keeps them from being written.

It asks the model only while nobody waits for anything: no run loop is at work and none has been for
a while. A message that comes in cancels the call at once. What was read is marked as read in the
transaction that stores its notes, so that a restart goes on where it stopped.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import anyio
from anyio import to_thread

from service.agent.consolidation.citation_check import checked, counted
from service.agent.consolidation.note_prompts import (
    SCHEMA,
    Question,
    UnusableNotesError,
    read_answer,
)
from service.domain.anchors import MemoryNote
from service.domain.conversation.messages import Message
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import BudgetError, LLMContextError, LLMError, LLMStreamError
from service.domain.spend import bounds
from service.domain.usage import Prices
from service.llm.generate import Generated
from service.llm.protocol import LLM
from service.llm.spending.accounts import Account, Spending
from service.loop.scheduler import Activity
from service.loop.unexpected_errors import problem_of
from service.memory.ledger.notes import UnreadSegment
from service.memory.ledger.terms import content_terms
from service.memory.memory import Memory
from service.storage.clock import local_now
from service.tuning import NOTES_BATCH_TOKENS, NOTES_KNOWN

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsolidationOptions:
    """When the model writes notes on what was said."""

    idle_seconds: float = 300
    """How long nothing may have been going on before."""
    max_tokens_per_day: int = 50_000
    """What it may use in a day, for all owners together."""
    min_new_segments: int = 10
    """How much must be new before it begins."""
    first_pause: float = 60
    """Seconds before a failed step is tried again; doubles each time it fails."""


State = Literal["waiting", "writing", "used up", "failing"]
"""``waiting``: for idle time, or for something new; ``used up``: the day's tokens are; ``failing``:
the model cannot be asked, or answers otherwise than it was asked to."""


@dataclass(frozen=True, slots=True)
class ConsolidationStatus:
    """How consolidation gets on. The counts are of this process."""

    state: State
    tokens_today: int
    max_tokens_per_day: int
    sentences_written: int
    sentences_dropped: Mapping[str, int]
    """By reason: what the model wrote and could not show to be true."""
    passages_set_aside: int
    """Segments to which the model gives no usable answer; tried again at the next start."""
    last_written_at: datetime | None
    problem: str | None
    """Why it does not go on, in words."""


_LOOK_AGAIN_SECONDS = 60.0
_LONGEST_PAUSE = 6 * 3600.0
_MOST_AT_A_TIME = 100  # segments
_MOST_ASIDE = 5

BeforeAsking = Callable[[str, list[Message]], Awaitable[list[Message]]]


class Consolidator:
    """Writes notes in the background: `run` it in a task group."""

    def __init__(
        self,
        llm: LLM,
        memory: Memory,
        options: ConsolidationOptions,
        *,
        before_asking: BeforeAsking,
        is_busy: Callable[[], bool],
        activity: Activity,
        spending: Spending,
        answer_tokens: int,
        prices: Prices | None = None,
    ) -> None:
        """Name the parts.

        Args:
            llm: writes the notes; one that honours `response_schema`.
            memory: open.
            options: when to work.
            before_asking: custom code, which may change what the model is shown.
            is_busy: whether a run loop is at work, or a message on its way into one.
            activity: what interrupts it.
            spending: lets its calls through, and counts them.
            answer_tokens: how long an answer may be.
            prices: of the model.
        """
        self._llm = llm
        self._memory = memory
        self._notes = memory.long_term.notes
        self._options = options
        self._before_asking = before_asking
        self._is_busy = is_busy
        self._activity = activity
        self._spending = spending
        self._answer_tokens = answer_tokens
        self._prices = prices
        self._bell = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._last_activity = 0.0
        self._looked_up_to = -1
        """The newest segment when everything was last found to be read."""
        self._most = _MOST_AT_A_TIME
        """How many segments the model is given at a time: fewer after an unusable answer."""
        self._aside: dict[str, set[int]] = defaultdict(set)
        """By owner: segments to which there is no usable answer."""
        self._failures = 0
        self._retry_at = 0.0
        self._state: State = "waiting"
        self._problem: str | None = None
        self._written = 0
        self._dropped: Counter[str] = Counter()
        self._written_at: datetime | None = None

    # --- what happens around it

    async def _be_interrupted(self) -> None:
        """Whenever a message comes, or a run loop begins or ends to work: stop, and wait anew."""
        while True:
            await self._activity.next()
            self._last_activity = anyio.current_time()
            if self._scope is not None:
                self._scope.cancel()
            self._bell.set()

    async def _follow_memory(self) -> None:
        """Look again whenever something new may be in long-term memory."""
        while True:
            await self._memory.archivist.next_archived()
            self._bell.set()

    async def status(self) -> ConsolidationStatus:
        """How it gets on.

        Raises:
            StorageError: the journal cannot be read.
        """
        return ConsolidationStatus(
            state=self._state,
            tokens_today=await self._tokens_today(),
            max_tokens_per_day=self._options.max_tokens_per_day,
            sentences_written=self._written,
            sentences_dropped=dict(self._dropped),
            passages_set_aside=self._count_aside(),
            last_written_at=self._written_at,
            problem=self._problem,
        )

    # --- the work

    async def run(self) -> None:
        """Work until cancelled. Failures are told and tried again; they end nothing."""
        self._last_activity = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(self._be_interrupted)
            group.start_soon(self._follow_memory)
            while True:
                self._bell = anyio.Event()
                bell = self._bell
                pause = self._seconds_left()
                if pause <= 0:
                    pause = await self._go()
                with anyio.move_on_after(pause):
                    await bell.wait()

    def _seconds_left(self) -> float:
        """How long it must still be quiet; 0 or less: it is time to work."""
        now = anyio.current_time()
        if self._is_busy():
            return self._options.idle_seconds
        return max(self._last_activity + self._options.idle_seconds, self._retry_at) - now

    async def _go(self) -> float:
        """Write what is to be written; gives after how many seconds to look again."""
        try:
            pause = await self._write_all()
        except Exception as error:  # noqa: BLE001  the worker outlives any failure, and tells it
            return self._failed(error)
        finally:
            if self._state == "writing":
                self._state = "waiting"
        return pause

    def _failed(self, error: Exception) -> float:
        self._state = "failing"
        self._problem = problem_of(error, title="Notes could not be written").in_words()
        pause = min(self._options.first_pause * 2.0**self._failures, _LONGEST_PAUSE)
        if self._count_aside() >= _MOST_ASIDE:  # it is the model, not the words
            pause = _LONGEST_PAUSE
        self._failures = min(self._failures + 1, 30)
        self._retry_at = anyio.current_time() + pause
        log.warning("notes are written later: %s", self._problem)
        return pause

    async def _write_all(self) -> float:
        newest = await to_thread.run_sync(self._notes.newest_segment)
        if newest == self._looked_up_to:
            return _LOOK_AGAIN_SECONDS
        least = self._options.min_new_segments
        for owner in await to_thread.run_sync(self._notes.owners):
            if await self._unread_count(owner, least) < least:
                continue
            while batch := await self._next_batch(owner):
                if self._seconds_left() > 0:
                    return 0.0
                if (pause := await self._write(owner, batch)) is not None:
                    return pause
        self._looked_up_to = newest
        self._state = "waiting"
        return _LOOK_AGAIN_SECONDS

    async def _unread_count(self, owner: str, least: int) -> int:
        aside = len(self._aside[owner])
        count = await to_thread.run_sync(
            lambda: self._notes.unread_count(owner, most=least + aside)
        )
        return count - aside

    async def _next_batch(self, owner: str) -> list[UnreadSegment]:
        aside = self._aside[owner]
        limit = self._most + len(aside)
        unread = await to_thread.run_sync(lambda: self._notes.unread(owner, limit=limit))
        batch: list[UnreadSegment] = []
        left = min(NOTES_BATCH_TOKENS, self._llm.context_tokens // 3)
        for each in unread:
            if each.number in aside:
                continue
            left -= estimate_tokens(each.segment.content)
            if batch and (left < 0 or len(batch) == self._most):
                break
            batch.append(each)
        return batch

    async def _write(self, owner: str, batch: Sequence[UnreadSegment]) -> float | None:
        """Have notes written from some segments; None when it can go on, else the pause."""
        text = "\n".join(each.segment.content for each in batch)
        notes = await to_thread.run_sync(self._notes.of, owner)
        question = Question(batch, _named_first(notes, text)[:NOTES_KNOWN])
        if (spent := await self._tokens_today()) + question.tokens + self._answer_tokens > (
            self._options.max_tokens_per_day
        ):
            self._state = "used up"
            self._problem = f"{spent:,} of {self._options.max_tokens_per_day:,} tokens are used"
            return _LOOK_AGAIN_SECONDS
        self._state = "writing"
        try:
            async with self._spending.account(owner=owner, purpose="consolidation") as account:
                generated = await self._ask(owner, question, account)
            if generated is None:
                return 0.0  # interrupted: begin anew when it is quiet
            proposed = read_answer(generated.message.text)
        except BudgetError as error:
            self._state, self._problem = "used up", error.problem().in_words()
            return _LOOK_AGAIN_SECONDS
        except LLMError as error:
            self._take_fewer(owner, batch, error)
            raise
        kept, dropped = checked(proposed, question)
        added = await to_thread.run_sync(lambda: self._notes.write(owner, kept, read=batch))
        self._succeeded(added, counted(dropped), len(batch))
        return None

    async def _ask(self, owner: str, question: Question, account: Account) -> Generated | None:
        """The model's answer; None when it was interrupted."""
        generated = None
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                messages = await self._before_asking(owner, list(question.messages))
                generated = await account.generate(
                    self._llm,
                    messages,
                    prices=self._prices,
                    response_schema=SCHEMA,
                    max_tokens=self._answer_tokens,
                )
            finally:
                self._scope = None
        return generated

    def _take_fewer(self, owner: str, batch: Sequence[UnreadSegment], error: LLMError) -> None:
        """After an unusable answer: something in these segments may be what it stumbles over."""
        if not isinstance(error, LLMStreamError | LLMContextError):
            return  # another question would have failed too
        if len(batch) == 1 and isinstance(error, UnusableNotesError | LLMContextError):
            self._aside[owner].add(batch[0].number)
            log.warning("no notes are written from %s for now", batch[0].segment.anchor)
        self._most = max(1, len(batch) // 2)

    def _count_aside(self) -> int:
        return sum(map(len, self._aside.values()))

    def _succeeded(self, added: int, dropped: Mapping[str, int], count: int) -> None:
        self._failures = 0
        self._problem = None
        self._most = min(2 * self._most, _MOST_AT_A_TIME)
        self._written += added
        self._dropped.update(dropped)
        if added:
            self._written_at = datetime.now(UTC)
        reasons = ", ".join(f"{number} for its {reason}" for reason, number in dropped.items())
        log.info(
            "notes: %d sentences from %d segments%s",
            added,
            count,
            f"; dropped: {reasons}" if reasons else "",
        )

    async def _tokens_today(self) -> int:
        midnight, _ = bounds("day", local_now())
        return await self._memory.journal.usage.spent("consolidation", since=midnight)


def _named_first(notes: Sequence[MemoryNote], text: str) -> list[MemoryNote]:
    """Notes, those first whose subjects a text names."""
    there = content_terms(text)
    return sorted(notes, key=lambda note: not content_terms(note.subject) & there)
