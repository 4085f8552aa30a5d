"""What model calls use: tokens, what they cost, and how both are summed up.

>>> prices = Prices(input=2.0, output=8.0, cached_input=0.5)
>>> prices.cost(TokenUsage("m", input_tokens=1000, output_tokens=500, cached_input_tokens=400))
0.0054
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from service.domain.conversation.stream_parts import TokenUsage
from service.domain.history.state import RunLoopState
from service.domain.run_loops import Timestamp
from service.domain.spend import SpendStatus

Grouping = Literal["day", "model", "purpose", "run_loop"]
"""What usage is summed up by. A day is one of the daemon's local time."""

_PER = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a model costs for each million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """For input that came from the endpoint's cache; None: as `input`."""
    currency: str = "USD"

    def cost(self, usage: TokenUsage) -> float:
        """What a call costs, in `currency`."""
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - cached
        total = fresh * self.input + cached * cached_price + usage.output_tokens * self.output
        return total / _PER


class LoopUsage(BaseModel):
    """What a run loop has used so far."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    """The part of `input_tokens` that came from the endpoint's cache."""
    cost: float | None
    """None where no call had a price."""
    currency: str | None
    """As configured now; None where no prices are configured."""

    @classmethod
    def of(cls, state: RunLoopState, prices: Prices | None) -> Self:
        """What the loop in this state has used."""
        return cls(
            input_tokens=state.input_tokens,
            output_tokens=state.output_tokens,
            cached_input_tokens=state.cached_input_tokens,
            cost=state.cost,
            currency=None if prices is None else prices.currency,
        )


class UsageTotals(BaseModel):
    """What a number of model calls used, taken together."""

    model_config = ConfigDict(frozen=True)

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    """The part of `input_tokens` that came from the endpoint's cache."""
    cost: float | None = None
    """In the currency of the configured prices; None where no call had a price."""
    calls_without_cost: int = 0
    """How many calls `cost` knows nothing of: no prices were configured then."""
    estimated_calls: int = 0
    """For how many the endpoint did not report its tokens, so that they are estimated."""


class UsageLine(UsageTotals):
    """The calls of one day, model, purpose or run loop."""

    key: str
    """The date, as ``2026-03-31``; the model; the purpose; or the run loop's id."""
    goal: str | None = None
    """Of the run loop, where lines are by run loop."""


class UsageReport(BaseModel):
    """What an owner's model calls used in a time."""

    model_config = ConfigDict(frozen=True)

    by: Grouping
    since: Timestamp | None
    until: Timestamp | None
    currency: str | None
    """Of the costs, as configured now; None where no prices are configured."""
    lines: tuple[UsageLine, ...]
    """Days newest first, all else most tokens first."""
    more: bool
    """Whether there are more lines than were asked for."""
    total: UsageTotals
    """Of all calls in the time, also those of lines that are not shown."""
    spend: SpendStatus | None = None
    """How far the caps are used up now, by all owners together."""
