"""What model calls use, as events."""

from __future__ import annotations

from service.domain.conversation.stream_parts import TokenUsage
from service.domain.history.events import Usage, UsagePurpose
from service.domain.usage import Prices
from service.llm.generate import Generated

_MOST_TOKENS = 10**12


def usage_of(
    generated: Generated, prices: Prices | None, *, purpose: UsagePurpose = "answer"
) -> Usage:
    """The usage event of a call, with its cost where there are prices."""
    told = generated.usage
    used = TokenUsage(
        told.model,
        _sane(told.input_tokens),
        _sane(told.output_tokens),
        cached_input_tokens=_sane(told.cached_input_tokens),
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
