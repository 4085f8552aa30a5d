"""A judge of known reliability in the language model's place: what one must be worth to help.

The router, its question and what it makes of the answer are the daemon's; the answer is drawn.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.bench.routing.router_methods import TimedEmbedder, router_for
from service.bench.routing.routing_dataset import RoutingSet
from service.bench.routing.routing_figures import NEW, Decided, of_decided
from service.bench.routing.teacher_forcing import Arrived, arrivals, decided_as
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.routes import Route
from service.llm.protocol import LLMStatus
from service.routing.routing_options import RouterOptions

_TOLD_EVERY = 100


class ScriptedJudge:
    """Gives the right one of the offered labels so often, else another of them. An `LLM`."""

    model = "scripted judge"
    context_tokens = 32_768

    def __init__(self, reliability: float, seed: int) -> None:
        """Two judges of one seed draw alike: the more reliable one is right wherever the other is.

        Args:
            reliability: the probability of the right label.
            seed: draws whether it is right, and else what it says.
        """
        self._reliability = reliability
        self._random = random.Random(seed)
        self.right = NEW
        """The place of the true loop among all, likeliest first. Where that is not offered, or it
        is `NEW`, the label of a new topic is the right one."""
        self.was_offered = True
        """Whether what is right was among what it was offered last."""

    def status(self) -> LLMStatus:
        """Always ready."""
        return LLMStatus(True, f"{self.model}: answers are drawn")

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Nothing is to be made ready."""

    async def aclose(self) -> None:
        """Nothing is held."""

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Draw one of the labels that the schema offers: loops, likeliest first, and a new one."""
        assert response_schema is not None, "a judge is asked for one of several labels"
        labels: list[str] = response_schema["properties"]["continues"]["enum"]
        new = len(labels) - 1
        right = self.right if 0 <= self.right < new else new
        self.was_offered = self.right < new
        is_right = self._random.random() < self._reliability
        wrong = self._random.choice([each for each in range(len(labels)) if each != right])
        yield TextDelta(json.dumps({"continues": labels[right if is_right else wrong]}))


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one message, and what the trained model alone had made of it."""

    decided: Decided
    alone: Decided
    offered: bool
    """Whether the judge was offered what is right, if it was asked."""


async def decide_with_judge(
    reliability: float,
    embedder: TimedEmbedder,
    options: RouterOptions,
    routing_set: RoutingSet,
    *,
    chosen: frozenset[int],
    seed: int,
    tell: Callable[[int], None] = lambda done: None,
) -> list[Judged]:
    """Route the chosen messages of a set as the daemon does with so reliable a language model.

    Args:
        reliability: of the judge, from 0 to 1.
        embedder: of the set's messages.
        options: the daemon's own; the language model is asked whatever they say.
        routing_set: what is replayed.
        chosen: numbers of messages, see `teacher_forcing.sampled`.
        seed: of the judge.
        tell: told from time to time how many are done.
    """
    judge = ScriptedJudge(reliability, seed)
    asking = replace(options, use_llm=True)
    judged: list[Judged] = []
    async with (
        router_for("embedding", embedder, None, options) as (ranking, warm_ranking),
        router_for("full", embedder, judge, asking) as (router, warm),
    ):
        for number, each in enumerate(arrivals(routing_set)):
            if number not in chosen:
                continue
            await warm_ranking(each.active)
            await warm(each.active)
            alone = await ranking.route(each.said.text, active=each.active, now=each.said.at)
            judge.right = _place(each, alone)
            route = await router.route(each.said.text, active=each.active, now=each.said.at)
            judged.append(
                Judged(decided_as(each, route), decided_as(each, alone), judge.was_offered)
            )
            if len(judged) % _TOLD_EVERY == 0:
                tell(len(judged))
    return judged


def _place(each: Arrived, alone: Route) -> int:
    """The place of the true loop among what was weighed; `NEW`: it is none of these."""
    if each.right == NEW:
        return NEW
    ranked = [candidate.run_loop_id for candidate in alone.candidates]
    true = each.active[each.right].id
    return ranked.index(true) if true in ranked else NEW


def of_judged(judged: Sequence[Judged]) -> dict[str, Any]:
    """The figures of `of_decided` without times, which a drawn answer does not take.

    Returns:
        Beside them ``judged``: how many ``messages`` the judge decided; of these the shares of
        which it was ``offered`` what is right, and that it and the trained model alone decided
        rightly, ``accuracy`` and ``accuracy_alone``; these are None where there were none.
    """
    asked = [each for each in judged if each.decided.method == "llm"]
    figures = of_decided([each.decided for each in judged])
    times = ("p50_ms", "p95_ms", "embedding_p50_ms", "ratio")
    return (
        figures
        | dict.fromkeys(times)
        | {
            "judged": {
                "messages": len(asked),
                "offered": _share([each.offered for each in asked]),
                "accuracy": _share([each.decided.decision.is_right for each in asked]),
                "accuracy_alone": _share([each.alone.decision.is_right for each in asked]),
            }
        }
    )


def _share(each_is: Sequence[bool]) -> float | None:
    return round(sum(each_is) / len(each_is), 4) if each_is else None
