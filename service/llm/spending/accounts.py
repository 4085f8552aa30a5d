"""The one door to a model: each call reserves what it may use at most, and is counted afterwards.

    async with spending.account(owner="me", purpose="answer") as account:
        generated = await account.generate(llm, messages, prices=prices)
        await loop.emit(completed, *account.take_usage())

Usage that nobody takes, as the work around it was stopped or has failed, is counted when the
account is closed. So are calls that broke off, by the length of what was sent and what had come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import (
    ResponseInfo,
    StreamPart,
    TextDelta,
    ThinkDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import StorageError
from service.domain.history.events import Usage, UsagePurpose
from service.domain.spend import SpendCaps, SpendStatus, Spent
from service.domain.usage import Prices
from service.llm.generate import (
    Generated,
    OnCall,
    OnPart,
    estimated_usage,
    generate,
    usage_of,
)
from service.llm.protocol import LLM
from service.llm.spending.reservations import Hold, Reservations
from service.llm.spending.worst_case import answer_bound, check_price, worst_case
from service.memory.journal.protocol import UsageLedger
from service.storage.clock import local_now

log = logging.getLogger(__name__)

_NO_CAPS = SpendCaps()


class Spending:
    """Opens accounts for calls, and tells what is spent."""

    def __init__(
        self,
        ledger: UsageLedger | None,
        caps: SpendCaps = _NO_CAPS,
        *,
        currency: str = "",
        now: Callable[[], datetime] = local_now,
    ) -> None:
        """Name what it works with.

        Args:
            ledger: keeps what was used; None: calls are made that nobody counts.
            caps: how much all of them together may use.
            currency: of the prices, for words.
            now: the person's clock, with its time zone.
        """
        self._ledger = ledger
        self._now = now
        self._reservations = Reservations(ledger, caps, currency=currency, now=now)

    def account(self, *, owner: str, purpose: UsagePurpose, run_loop_id: str = "") -> Account:
        """By what the calls of a piece of work are let through, and counted.

        Args:
            owner: for whom they are made.
            purpose: what for.
            run_loop_id: for which loop; empty where it is for none.
        """
        return Account(
            self._reservations,
            self._ledger,
            owner=owner,
            purpose=purpose,
            run_loop_id=run_loop_id,
            now=self._now,
        )

    async def status(self) -> SpendStatus:
        """How far the caps are used up, by all owners together.

        Raises:
            StorageError: the journal cannot be read.
        """
        return await self._reservations.status()


class Account:
    """What the calls of a piece of work may use, and have used until that is in the journal."""

    def __init__(
        self,
        reservations: Reservations,
        ledger: UsageLedger | None,
        *,
        owner: str,
        purpose: UsagePurpose,
        run_loop_id: str,
        now: Callable[[], datetime],
    ) -> None:
        self._reservations = reservations
        self._ledger = ledger
        self._owner = owner
        self._purpose: UsagePurpose = purpose
        self._run_loop_id = run_loop_id
        self._now = now
        self._holds: list[Hold] = []
        self._untaken: list[tuple[Hold, Usage]] = []

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Count what nobody has taken; then all that was used is in the journal."""
        with anyio.CancelScope(shield=True):
            await self._count(self.take_usage())

    async def generate(
        self,
        llm: LLM,
        messages: Sequence[Message],
        *,
        prices: Prices | None,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        size: int | None = None,
        on_part: OnPart | None = None,
        on_call: OnCall | None = None,
    ) -> Generated:
        """Call a model once, as `service.llm.generate.generate` does.

        Where caps are set, and neither the model nor the call bounds the answer, it is bounded to
        `SPEND_ANSWER_TOKENS`.

        Args:
            llm: the model.
            messages: the conversation.
            prices: of the model; None: its calls have no cost.
            tools: what it may call.
            response_schema: what its text must satisfy, as JSON Schema.
            max_tokens: bound of the answer.
            temperature: None for the client's default.
            size: bytes of all messages, where the caller knows it.
            on_part: told of each piece as it arrives; must not block.
            on_call: told of each tool call as soon as it is whole; must not block.

        Raises:
            BudgetError: a cap on spending does not let it.
            StorageError: what was used so far cannot be read.
            LLMError: the call failed.
        """
        if self._reservations.caps.are_set:
            max_tokens = answer_bound(llm, max_tokens)
        hold = await self.reserve(
            llm,
            messages,
            prices=prices,
            tools=tools,
            response_schema=response_schema,
            max_tokens=max_tokens,
        )
        streamed = _Streamed(on_part)
        try:
            generated = await generate(
                llm,
                messages,
                tools=tools,
                response_schema=response_schema,
                max_tokens=max_tokens,
                temperature=temperature,
                size=size,
                on_part=streamed.part,
                on_call=on_call,
            )
        except BaseException:
            if streamed.began:
                broken_off = streamed.so_far(llm.model, messages, tools)
                self._settle(hold, usage_of(broken_off, prices, purpose=self._purpose))
            else:
                self._holds.remove(hold)
                self._reservations.release(hold)
            raise
        self._settle(hold, usage_of(generated, prices, purpose=self._purpose))
        return generated

    async def reserve(
        self,
        llm: LLM,
        messages: Sequence[Message],
        *,
        prices: Prices | None,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        ends_soon: bool = True,
    ) -> Hold:
        """Reserve what a call may use at most; until the account is closed, if it is not made.

        Args:
            llm: the model.
            messages: the conversation.
            prices: of the model; None: its calls have no cost.
            tools: what it may call.
            response_schema: what its text must satisfy.
            max_tokens: bound of the answer.
            ends_soon: see `Hold`.

        Raises:
            BudgetError: a cap on spending does not let it.
            StorageError: what was used so far cannot be read.
        """
        most = Spent()
        if (caps := self._reservations.caps).are_set:
            check_price(llm, prices, caps)
            most = worst_case(
                llm,
                messages,
                prices=prices,
                tools=tools,
                response_schema=response_schema,
                max_tokens=max_tokens,
            )
        hold = await self._reservations.reserve(most, ends_soon=ends_soon)
        self._holds.append(hold)
        return hold

    def take_usage(self) -> list[Usage]:
        """The events of the calls that have come back.

        Whoever takes them journals them at once, before the account is closed.
        """
        taken, self._untaken = self._untaken, []
        for hold, _ in taken:
            hold.ends_soon = True
        return [usage for _, usage in taken]

    def close(self) -> None:
        """All that was used is in the journal, or nobody will know of it."""
        for hold in self._holds:
            self._reservations.release(hold)
        self._holds = []

    def _settle(self, hold: Hold, usage: Usage) -> None:
        self._untaken.append((hold, usage))
        used = Spent(usage.input_tokens + usage.output_tokens, usage.cost or 0.0)
        self._reservations.settle(hold, used)

    async def _count(self, untaken: Sequence[Usage]) -> None:
        ledger = self._ledger
        if ledger is None:
            return
        try:
            for usage in untaken:
                await ledger.add(
                    usage, owner=self._owner, at=self._now(), run_loop_id=self._run_loop_id
                )
        except StorageError as error:
            # The holds stay: as long as this process lives, it is used.
            log.error("what a model call has used is not in the journal: %s", error)
        else:
            self.close()


class _Streamed:
    """What has come of an answer, in case it breaks off."""

    def __init__(self, on_part: OnPart | None) -> None:
        self._on_part = on_part
        self._length = 0
        self._reported: TokenUsage | None = None
        self.began = False

    def part(self, part: StreamPart) -> None:
        self.began = True
        match part:
            case TextDelta(text=words) | ThinkDelta(think=words) | ToolCallDelta(arguments=words):
                self._length += len(words.encode("utf-8", "replace"))
            case TokenUsage():
                self._reported = part
            case ResponseInfo():
                pass
        if self._on_part is not None:
            self._on_part(part)

    def so_far(
        self, model: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generated:
        """What a call that broke off has used: at least what the endpoint has reported."""
        size = sum(each.size for each in messages)
        used = estimated_usage(model, size, tools, self._length)
        if (reported := self._reported) is not None:
            used = TokenUsage(
                model,
                reported.input_tokens or used.input_tokens,
                max(reported.output_tokens, used.output_tokens),
                reported.cached_input_tokens,
            )
        return Generated(Message.assistant(""), used, estimated=used != reported)
