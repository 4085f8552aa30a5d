"""How long a decision among many active loops takes, beside the embedding of the message alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from service.agent.router import Router
from service.bench.errors import BenchmarkError
from service.bench.latency import percentile
from service.bench.routing.active import ActiveLoops
from service.bench.routing.crowd import TURNS, conversations, messages
from service.bench.routing.embedding import TimedEmbedder
from service.bench.routing.routers import Warm

MESSAGES = 80
WARM_UP = 8
"""Messages before those, which do not count."""
MOST_LOOPS = 110
"""More made-up matters than these would not all be active within fifteen minutes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Milliseconds of one message: the whole decision, and its embedding alone."""

    house: float
    floor: float | None


def check(loops: int) -> None:
    """See that so many made-up loops can be active at once.

    Raises:
        BenchmarkError: they cannot.
    """
    if loops > MOST_LOOPS:
        raise BenchmarkError(
            f"{loops} made-up loops would not all be active at once",
            advice=f"Measure {MOST_LOOPS} at most.",
        )


async def measure(
    router: Router, warm: Warm, embedder: TimedEmbedder, *, loops: int, seed: int
) -> dict[str, Any]:
    """Decide on made-up messages among `loops` active loops of several turns.

    The turns' vectors are known beforehand, as the daemon has them; the message's never is. Every
    other message is embedded alone first, the others afterwards.

    Returns:
        See `of_speed`; and ``loops`` and ``turns``, how many were said in each.
    """
    held = ActiveLoops("speed")
    said = list(conversations(loops))
    for each in said:
        held.hear(each)
    now = said[-1].at + timedelta(seconds=5)
    active = held.at(now)
    await warm(active)
    taken: list[Taken] = []
    for number, text in enumerate(messages(loops, WARM_UP + MESSAGES, seed)):
        floor = await embedder.bare_ms(text) if number % 2 else None
        begun = time.perf_counter()
        await router.route(text, active=active, now=now)
        house = (time.perf_counter() - begun) * 1000
        if not number % 2:
            floor = await embedder.bare_ms(text)
        taken.append(Taken(house, floor))
    return {"loops": len(active), "turns": TURNS, **of_speed(taken[WARM_UP:])}


def of_speed(taken: Sequence[Taken]) -> dict[str, Any]:
    """The figures.

    Returns:
        ``messages``; ``p50_ms`` and ``p95_ms`` of a decision, the embedding of the message
        included; ``embedding_p50_ms`` of the embedding alone; ``ratio``, the median over the
        messages of decision over embedding. The last two are None without an embedder.
    """
    house = [each.house for each in taken]
    floor = [each.floor for each in taken if each.floor is not None]
    ratios = [each.house / each.floor for each in taken if each.floor]
    return {
        "messages": len(taken),
        "p50_ms": round(statistics.median(house), 2),
        "p95_ms": round(percentile(house, 95), 2),
        "embedding_p50_ms": round(statistics.median(floor), 2) if floor else None,
        "ratio": round(statistics.median(ratios), 3) if ratios else None,
    }
