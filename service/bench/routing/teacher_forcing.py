"""Teacher-forced: each message of a person's goes through the router, then joins its true loop.

The loops are those that a daemon would hold, had it heard the conversation: their states are folded
from the events that the daemon journals, each at the moment of the message that it belongs to.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from service.bench.routing.router_methods import TimedEmbedder, Warm
from service.bench.routing.routing_dataset import RoutingSet, Said
from service.bench.routing.routing_figures import NEW, Decided, Decision
from service.domain.conversation.messages import Message
from service.domain.history.events import (
    Event,
    EventBody,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopIdle,
    RunLoopInterrupted,
    RunLoopStarted,
)
from service.domain.history.fold import begin, evolve
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.history.state import RunLoopState
from service.domain.routes import Route
from service.routing.candidate_loops import with_alternatives
from service.routing.router import Router

ACTIVE_SECONDS = 900.0
"""How old a loop's last message may be for the loop to be active: the daemon's own default."""
OWNER = "me"
_TOLD_EVERY_SECONDS = 15.0


class ActiveLoops:
    """The loops of one stream; whatever was decided, each message joins its true one."""

    def __init__(self, stream: str) -> None:
        """`stream` goes into the loops' ids, which no two streams share."""
        self._stream = stream
        self._states: dict[str, RunLoopState] = {}
        """By thread; those that changed last come last."""
        self._seq = 0

    def id_of(self, thread: str) -> str:
        """The id of a thread's loop."""
        return f"{self._stream}:{thread}"

    def at(self, moment: datetime) -> list[RunLoopState]:
        """The loops that are active at a moment, those that changed last first."""
        return [
            state
            for state in reversed(self._states.values())
            if (moment - state.updated_at).total_seconds() <= ACTIVE_SECONDS
        ]

    def hear(self, said: Said) -> RunLoopState:
        """A message joins its thread's loop, or opens it; the loop's new state."""
        state = self._states.pop(said.thread, None)
        if state is None:
            goal = said.text.strip() or "(an image)"
            state = begin(self._event(said, RunLoopStarted(goal=goal)))
        for body in _observed(state, said) if said.role == "user" else _answered(state, said):
            state = evolve(state, self._event(said, body))
        self._states[said.thread] = state
        return state

    def _event(self, said: Said, body: EventBody) -> Event:
        self._seq += 1
        return Event(
            seq=self._seq,
            at=said.at,
            owner=OWNER,
            run_loop_id=self.id_of(said.thread),
            body=body,
        )


def _observed(state: RunLoopState, said: Said) -> list[EventBody]:
    received = MessageReceived(message_id=said.id, message=Message.user(said.text))
    started = IterationStarted(index=state.iteration_count, message_ids=(said.id,))
    if state.thinking:  # nobody has answered what was said before
        return [received, RunLoopInterrupted(message_id=said.id), started]
    return [received, started]


def _answered(state: RunLoopState, said: Said) -> list[EventBody]:
    completed = MessageCompleted(message=Message.assistant(said.text))
    if state.thinking:
        return [completed, RunLoopIdle()]
    started = IterationStarted(index=state.iteration_count, message_ids=())
    return [started, completed, RunLoopIdle()]


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
    return decided_as(
        each, route, ms=ms, embedded=embedded, embedding_ms=baseline if embedded else None
    )


def decided_as(
    each: Arrived,
    route: Route,
    *,
    ms: float = 0.0,
    embedded: int = 0,
    embedding_ms: float | None = None,
) -> Decided:
    """What came of a message that was routed so, with the times that it took, if they are known."""
    ids = [state.id for state in each.active]
    true = NEW_RUN_LOOP if each.right == NEW else ids[each.right]
    return Decided(
        decision=Decision(
            NEW if route.run_loop_id is None else ids.index(route.run_loop_id),
            each.right,
            route.confidence,
        ),
        candidates=len(ids),
        method=route.method,
        ms=ms,
        embedded=embedded,
        embedding_ms=embedding_ms,
        offers_right=true in with_alternatives(route, below=math.inf).alternatives,
    )
