"""Teacher-forced: each message of a person's goes through the router, then joins its true loop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from service.bench.routing.bench_embedders import TimedEmbedder
from service.bench.routing.open_loops import ActiveLoops
from service.bench.routing.router_methods import Warm
from service.bench.routing.routing_dataset import RoutingSet, Said
from service.bench.routing.routing_metrics import NEW, Decided, Decision
from service.domain.history.state import RunLoopState
from service.routing.router import Router

_TOLD_EVERY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that is to be routed."""

    said: Said
    active: Sequence[RunLoopState]
    """Those that changed last first."""
    right: int
    """The place of the true loop among them; `NEW` where it is none of them."""


def arrivals(routing_set: RoutingSet) -> Iterator[Arrived]:
    """Every message of a person's, with the loops that were active when it came."""
    for stream in routing_set.streams:
        loops = ActiveLoops(stream.name)
        for said in stream.said:
            if said.role == "user":
                active = loops.at(said.at)
                ids = [state.id for state in active]
                true = loops.id_of(said.thread)
                yield Arrived(said, active, ids.index(true) if true in ids else NEW)
            loops.hear(said)


def sampled(count: int, limit: int | None, seed: int) -> frozenset[int]:
    """Which of so many messages are routed: all, or `limit` of them, drawn by `seed`."""
    if limit is None or limit >= count:
        return frozenset(range(count))
    return frozenset(random.Random(seed).sample(range(count), limit))


async def decide_all(
    router: Router,
    warm: Warm,
    embedder: TimedEmbedder,
    routing_set: RoutingSet,
    *,
    chosen: frozenset[int],
    tell: Callable[[int], None] = lambda done: None,
) -> list[Decided]:
    """Route the chosen messages of a set, in order of time.

    The message's bare embedding is timed in turn: for one message before, for the next one after
    the decision, so that a busy moment of the machine's hits both.

    Args:
        router: decides; it is given nothing but what a daemon's is.
        warm: told of the active loops before each decision; its time does not count.
        embedder: the one that the router embeds by.
        routing_set: what is replayed.
        chosen: numbers of messages, see `sampled`.
        tell: told from time to time how many are done.
    """
    decided: list[Decided] = []
    last_report = time.monotonic()
    for number, each in enumerate(arrivals(routing_set)):
        if number not in chosen:
            continue
        await warm(each.active)
        decided.append(await _decide(router, embedder, each, baseline_first=len(decided) % 2 == 0))
        if time.monotonic() - last_report > _TOLD_EVERY_SECONDS:
            last_report = time.monotonic()
            tell(len(decided))
    return decided


async def _decide(
    router: Router, embedder: TimedEmbedder, each: Arrived, *, baseline_first: bool
) -> Decided:
    text = each.said.text
    baseline = await embedder.bare_ms(text) if baseline_first and each.active else None
    embedder.embedded = 0
    begun = time.perf_counter()
    route = await router.route(text, active=each.active, now=each.said.at)
    ms = (time.perf_counter() - begun) * 1000
    embedded = embedder.embedded
    if not baseline_first and each.active:
        baseline = await embedder.bare_ms(text)
    ids = [state.id for state in each.active]
    place = NEW if route.run_loop_id is None else ids.index(route.run_loop_id)
    return Decided(
        decision=Decision(place, each.right, route.confidence),
        candidates=len(ids),
        method=route.method,
        ms=ms,
        embedded=embedded,
        embedding_ms=baseline if embedded else None,
    )
