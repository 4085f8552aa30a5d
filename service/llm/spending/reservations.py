"""Reservations: what calls may use is set aside before they are made, so that caps hold for all.

They are in memory and end with the process; what was used is in the journal. A call waits while
others are under way that may leave room for it; where none could, it is refused in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import anyio

from service.domain.errors import BudgetError
from service.domain.spend import (
    Cap,
    Period,
    PeriodSpend,
    SpendCaps,
    SpendStatus,
    Spent,
    bounds,
    cap_of,
)
from service.memory.journal.protocol import UsageLedger

_Unit = Literal["tokens", "cost"]
_UNITS: tuple[_Unit, ...] = ("tokens", "cost")
_FROM_THE_LONGEST: tuple[Period, ...] = ("month", "day")
_THIS: dict[Period, str] = {"day": "today", "month": "this month"}
_OF: dict[Period, str] = {"day": "daily", "month": "monthly"}


@dataclass(slots=True, eq=False)
class Hold:
    """What a call may use, or has used and is not in the journal yet."""

    most: Spent
    ends_soon: bool
    """Whether others may wait for its end: it does not wait for them."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """How much of a period is used up, and what a call would add."""

    period: Period
    cap: Cap
    until: datetime
    settled: Spent
    """What is used, and what stays reserved whoever waits."""
    waited_for: Spent
    """What others have reserved and may give back."""
    most: Spent
    """What the call may use."""

    def is_over(self, what: _Unit, *, at_best: bool = False) -> bool:
        """Whether the call would go over the cap; at best: if others give back all they hold."""
        cap = getattr(self.cap, what)
        if cap is None:
            return False
        reserved = 0 if at_best else getattr(self.waited_for, what)
        return bool(getattr(self.settled, what) + reserved + getattr(self.most, what) > cap)


class Reservations:
    """Sets aside what calls may use, as far as the caps go."""

    def __init__(
        self,
        ledger: UsageLedger | None,
        caps: SpendCaps,
        *,
        currency: str,
        now: Callable[[], datetime],
    ) -> None:
        """Name what it works with.

        Args:
            ledger: what was used; None: nobody knows.
            caps: how much may be.
            currency: of the prices, for words.
            now: the person's clock, with its time zone.
        """
        self.caps = caps
        self._ledger = ledger
        self._currency = currency
        self._now = now
        self._holds: list[Hold] = []
        self._turn = anyio.Lock()
        self._changed = anyio.Event()

    async def reserve(self, most: Spent, *, ends_soon: bool) -> Hold:
        """Set aside what a call may use, once there is room for it.

        Args:
            most: what it may use at the very most.
            ends_soon: see `Hold`.

        Raises:
            BudgetError: a cap does not let it; says which, and when it is free again.
            StorageError: what was used cannot be read.
        """
        hold = Hold(most, ends_soon)
        if not self.caps.are_set:
            return hold
        while True:
            async with self._turn:
                changed = self._changed
                over = await self._first_over(most)
                if changed.is_set():
                    continue  # what was held may be in the journal since: count anew
                if over is None:
                    self._holds.append(hold)
                    return hold
            measured, what = over
            if measured.is_over(what, at_best=True):
                raise self._error(measured, what)
            await changed.wait()

    def settle(self, hold: Hold, used: Spent) -> None:
        """A call has come back: what it has used stands in the place of what it might have."""
        hold.most, hold.ends_soon = used, False
        self._wake()

    def release(self, hold: Hold) -> None:
        """What a call has used is in the journal; or it was not made."""
        if hold in self._holds:
            self._holds.remove(hold)
            self._wake()

    async def status(self) -> SpendStatus:
        """How far the caps are used up.

        Raises:
            StorageError: the journal cannot be read.
        """
        now = self._now()
        return SpendStatus(day=await self._look("day", now), month=await self._look("month", now))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _look(self, period: Period, now: datetime) -> PeriodSpend:
        since, until = bounds(period, now)
        cap, used = cap_of(self.caps, period), await self._used(since)
        held = sum((each.most for each in self._holds), Spent())
        return PeriodSpend(
            since=since,
            until=until,
            tokens_used=used.tokens,
            tokens_reserved=held.tokens,
            tokens_cap=cap.tokens,
            cost_used=used.cost,
            cost_reserved=held.cost,
            cost_cap=cap.cost,
        )

    async def _used(self, since: datetime) -> Spent:
        if self._ledger is None:
            return Spent()
        # Without an end: where the clock was set back, what was used "later" counts too.
        total = await self._ledger.total(owner=None, since=since)
        return Spent(total.input_tokens + total.output_tokens, total.cost or 0.0)

    async def _first_over(self, most: Spent) -> tuple[_Measured, _Unit] | None:
        """The cap, if any, that a call would go over just now."""
        now = self._now()
        for period in _FROM_THE_LONGEST:
            cap = cap_of(self.caps, period)
            if cap == Cap():
                continue
            since, until = bounds(period, now)
            used = await self._used(since)
            kept = (each.most for each in self._holds if not each.ends_soon)
            measured = _Measured(
                period,
                cap,
                until,
                settled=sum(kept, used),
                waited_for=sum((each.most for each in self._holds if each.ends_soon), Spent()),
                most=most,
            )
            for what in _UNITS:
                if measured.is_over(what):
                    return measured, what
        return None

    def _error(self, measured: _Measured, what: _Unit) -> BudgetError:
        period = measured.period
        setting = f"spend.{_OF[period]}_{what}"
        raised = (
            f"raise {setting} (RONDO_{setting.replace('.', '__').upper()}) and restart the daemon"
        )
        cap = getattr(measured.cap, what)
        if getattr(measured.most, what) > cap:
            advice = f"No {period} has room for it: {raised}, or lower llm.max_tokens"
        else:
            advice = f"There is room again from {measured.until:%Y-%m-%d %H:%M} on; or {raised}"
        used, most = (getattr(each, what) for each in (measured.settled, measured.most))
        used, cap, most = (self._in_words(what, each) for each in (used, cap, most))
        return BudgetError(
            f"{_THIS[period]} {used} of {cap} are used or reserved, and this call may use {most}",
            title=f"The {_OF[period]} cap on spending leaves no room for a model call",
            advice=f"{advice}. Then resume the run loop, or send it a message.",
        )

    def _in_words(self, what: _Unit, amount: float) -> str:
        if what == "tokens":
            return f"{amount:,} tokens"
        return f"{amount:,.{2 if amount >= 1 else 4}f} {self._currency}".rstrip()
