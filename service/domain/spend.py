"""Caps on what all model calls together may use in a day or a month, and how far they are used up.

Days and months are those of a person's clock: they begin at midnight where the person is, and a day
on which clocks are changed is an hour longer or shorter.

>>> from zoneinfo import ZoneInfo
>>> berlin = ZoneInfo("Europe/Berlin")
>>> since, until = bounds("day", datetime(2026, 3, 29, 12, tzinfo=berlin))
>>> (until.timestamp() - since.timestamp()) / 3600
23.0
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Literal

from pydantic import BaseModel, ConfigDict

from service.domain.run_loops import Timestamp

Period = Literal["day", "month"]
"""What a cap holds for."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, prompts and answers together, and what they cost."""

    tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices."""

    def __add__(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(self.tokens + other.tokens, self.cost + other.cost)


@dataclass(frozen=True, slots=True)
class Cap:
    """What may be used within a period, by all owners together; None: as much as one likes."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendCaps:
    """What all model calls of all owners together may use; None: as much as one likes."""

    daily_tokens: int | None = None
    daily_cost: float | None = None
    """In the currency of the prices."""
    monthly_tokens: int | None = None
    monthly_cost: float | None = None

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return self != SpendCaps()

    @property
    def bound_money(self) -> bool:
        """Whether any of them is in money."""
        return self.daily_cost is not None or self.monthly_cost is not None


class PeriodSpend(BaseModel):
    """How far the caps of the present day or month are used up, by all owners together."""

    model_config = ConfigDict(frozen=True)

    since: Timestamp
    until: Timestamp
    """When it is free again."""
    tokens_used: int
    tokens_reserved: int
    """What calls that are under way may use at the very most."""
    tokens_cap: int | None
    cost_used: float
    """In the currency of the configured prices; calls without a price count nothing."""
    cost_reserved: float
    cost_cap: float | None


class SpendStatus(BaseModel):
    """How far the caps are used up."""

    model_config = ConfigDict(frozen=True)

    day: PeriodSpend
    month: PeriodSpend


def cap_of(caps: SpendCaps, period: Period) -> Cap:
    """What holds for a period."""
    if period == "day":
        return Cap(caps.daily_tokens, caps.daily_cost)
    return Cap(caps.monthly_tokens, caps.monthly_cost)


def bounds(period: Period, now: datetime) -> tuple[datetime, datetime]:
    """When the day or month of a moment begins and ends, in the time zone of the moment."""
    first = now.date() if period == "day" else now.date().replace(day=1)
    following = first + timedelta(days=1)
    if period == "month":
        following = (first + timedelta(days=31)).replace(day=1)
    return _midnight(first, now.tzinfo), _midnight(following, now.tzinfo)


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)
