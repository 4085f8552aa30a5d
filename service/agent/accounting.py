"""What model calls use, as events."""

from __future__ import annotations

from service.agent.generate import Generated
from service.agent.workbench import Workbench
from service.domain.events import Usage, UsagePurpose
from service.domain.usage import Prices


def usage_of(bench: Workbench, generated: Generated, *, purpose: UsagePurpose = "answer") -> Usage:
    """The usage event of a call, with its cost where prices are configured."""
    return priced(generated, bench.prices, purpose=purpose)


def priced(generated: Generated, prices: Prices | None, *, purpose: UsagePurpose) -> Usage:
    """The usage event of a call, with its cost where there are prices."""
    used = generated.usage
    return Usage(
        model=used.model,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_input_tokens=used.cached_input_tokens,
        cost=None if prices is None else prices.cost(used),
        purpose=purpose,
        estimated=generated.estimated,
    )
