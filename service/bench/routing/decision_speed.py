"""How long a decision among many active loops takes, beside the embedding of the message alone."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from service.bench.parameters import BenchmarkError
from service.bench.routing.bench_embedders import TimedEmbedder
from service.bench.routing.many_topics import TURNS, conversations, messages
from service.bench.routing.open_loops import ActiveLoops
from service.bench.routing.router_methods import Warm
from service.bench.routing.routing_figures import times
from service.routing.router import Router

MESSAGES = 80
WARM_UP = 8
"""Messages before those, which do not count."""
MOST_LOOPS = 110
"""More made-up topics than these would not all be active within fifteen minutes."""


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
        ``messages``, ``loops``, and ``turns``, how many were said in each; and what
        `routing_figures.times` gives.
    """
    held = ActiveLoops("speed")
    said = list(conversations(loops))
    for each in said:
        held.hear(each)
    now = said[-1].at + timedelta(seconds=5)
    active = held.at(now)
    await warm(active)
    taken: list[tuple[float, float | None]] = []
    for number, text in enumerate(messages(loops, WARM_UP + MESSAGES, seed)):
        baseline = await embedder.bare_ms(text) if number % 2 else None
        begun = time.perf_counter()
        await router.route(text, active=active, now=now)
        subject = (time.perf_counter() - begun) * 1000
        if not number % 2:
            baseline = await embedder.bare_ms(text)
        taken.append((subject, baseline))
    counted = taken[WARM_UP:]
    return {"loops": len(active), "turns": TURNS, "messages": len(counted), **times(counted)}
