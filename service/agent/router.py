"""The router: which run loop a message belongs to, and why.

Explicit id → embedding similarity → the model's judgement → fallback; the first that is sure
decides. It always gives a reason in words.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import anyio
import numpy as np

from service.agent.accounting import priced
from service.agent.llm.protocol import LLM
from service.agent.router_llm import judge
from service.agent.tuned import (
    ROUTER_JOIN_ABOVE,
    ROUTER_NEW_BELOW,
    ROUTER_RECENCY_WEIGHT,
    ROUTER_TURN_CHARACTERS,
    ROUTER_TURNS,
)
from service.domain.errors import LLMError
from service.domain.events import Usage
from service.domain.routes import Route, RouteCandidate
from service.domain.run_loops import RESUMABLE
from service.domain.state import RunLoopState
from service.domain.usage import Prices
from service.memory.protocol import Vectors

EmbedQueries = Callable[[Sequence[str]], Awaitable[Vectors | None]]
"""Vectors of texts, one row each; None while there is no embedder."""
OnUsage = Callable[[Usage], None]
"""Told what a judgement used, also one that came to nothing."""

_CACHED_TURNS = 4096
_JUDGED = 0.7  # the model gives no probability: its word counts for more than a coin's


class Router:
    """Decides for each message. Embeds each turn of a loop once."""

    def __init__(
        self,
        llm: LLM,
        embed: EmbedQueries,
        *,
        auto_classify: bool = True,
        use_llm: bool = True,
        llm_timeout_seconds: float = 15,
        prices: Prices | None = None,
    ) -> None:
        self._llm = llm
        self._embed = embed
        self._auto_classify = auto_classify
        self._use_llm = use_llm
        self._llm_timeout = llm_timeout_seconds
        self._prices = prices
        self._vectors: dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]] = {}

    async def route(
        self,
        text: str,
        *,
        active: Sequence[RunLoopState],
        now: datetime,
        requested: RunLoopState | None = None,
        on_usage: OnUsage = lambda usage: None,
    ) -> Route:
        """Decide where a message belongs.

        Args:
            text: the message.
            active: the sender's active loops, newest first.
            now: when it came.
            requested: the loop that the sender named, if any.
            on_usage: told what the model used, where it is asked.
        """
        if requested is not None:
            return _explicit(requested)
        if not self._auto_classify:
            return _new(1.0, "every message without an id opens a run loop (auto_classify is off)")
        if not active:
            return _new(1.0, "no run loop is active")
        scored = await self._score(text, active, now)
        decided = _by_similarity(scored)
        if decided is not None:
            return decided
        judged = await self._by_judgement(text, scored, on_usage)
        return judged if isinstance(judged, Route) else _fallback(scored, now, undecided=judged)

    async def _score(
        self, text: str, active: Sequence[RunLoopState], now: datetime
    ) -> list[tuple[RunLoopState, float | None]]:
        """The loops with their scores, best first; None as score while nothing can be embedded."""
        turns = {state.id: _turns(state) for state in active}
        spoken = text[:ROUTER_TURN_CHARACTERS]
        wanted = {spoken, *(turn for each in turns.values() for turn in each)}
        missing = [each for each in wanted if each not in self._vectors]
        vectors = await self._embed(missing) if missing else None
        if missing and vectors is None:
            return [(state, None) for state in active]
        if vectors is not None:
            if len(self._vectors) > _CACHED_TURNS:
                self._vectors = {
                    key: value for key, value in self._vectors.items() if key in wanted
                }
            self._vectors.update(zip(missing, vectors, strict=True))
        message = self._vectors[spoken]
        scored: list[tuple[RunLoopState, float | None]] = []
        for state in active:
            cosines = [float(message @ self._vectors[turn]) for turn in turns[state.id]]
            cosine = max(cosines, default=-1.0)
            minutes = max((now - state.updated_at).total_seconds(), 0) / 60
            scored.append((state, cosine - ROUTER_RECENCY_WEIGHT * math.log1p(minutes)))
        return sorted(scored, key=lambda pair: pair[1] or 0.0, reverse=True)

    async def _by_judgement(
        self,
        text: str,
        scored: Sequence[tuple[RunLoopState, float | None]],
        on_usage: OnUsage,
    ) -> Route | str:
        """The model's decision, or why there is none, in words."""
        if not self._use_llm:
            return "the model is not asked (router.use_llm is off)"
        if not self._llm.status().ready:
            return "the model is not ready"
        candidates = [state for state, _ in scored]
        try:
            with anyio.fail_after(self._llm_timeout):
                chosen = await judge(
                    self._llm,
                    text,
                    candidates,
                    on_generated=lambda generated: on_usage(
                        priced(generated, self._prices, purpose="routing")
                    ),
                )
        except LLMError as error:
            return f"the model could not say ({error.title.lower()})"
        except TimeoutError:
            return f"the model did not answer within {self._llm_timeout:g} s"
        shown = _candidates(scored)
        if chosen is None:
            reason = "the model judged that it opens a new matter"
            return _new(_JUDGED, reason, "llm", candidates=shown)
        reason = f"the model judged that it belongs to “{_short(chosen.goal)}”"
        return _join(chosen, _JUDGED, reason, "llm", candidates=shown)


def _explicit(requested: RunLoopState) -> Route:
    if requested.is_active:
        return _join(requested, 1.0, "the sender named this run loop", "explicit")
    if requested.status in RESUMABLE:
        reason = f"the sender named this run loop, which was {requested.status}: it goes on"
        return _join(requested, 1.0, reason, "explicit")
    return Route(
        decision="new",
        predecessor_id=requested.id,
        confidence=1.0,
        method="explicit",
        reason=f"the sender named a run loop that is {requested.status}: a new one takes it up",
    )


def _by_similarity(scored: Sequence[tuple[RunLoopState, float | None]]) -> Route | None:
    best, score = scored[0]
    if score is None:
        return None
    shown = _candidates(scored)
    if score >= ROUTER_JOIN_ABOVE:
        reason = f"it is close in meaning to “{_short(best.goal)}” ({score:.2f})"
        return _join(best, min(score, 1.0), reason, "embedding", candidates=shown)
    if score < ROUTER_NEW_BELOW:
        reason = f"nothing active is close to it in meaning (at most {score:.2f})"
        return _new(min(max(1 - score, 0.0), 1.0), reason, "embedding", candidates=shown)
    return None


def _fallback(
    scored: Sequence[tuple[RunLoopState, float | None]], now: datetime, *, undecided: str
) -> Route:
    best, score = scored[0]
    shown = _candidates(scored)
    if score is not None:
        middle = (ROUTER_JOIN_ABOVE + ROUTER_NEW_BELOW) / 2
        if score >= middle:
            reason = f"{undecided}; “{_short(best.goal)}” is the closest in meaning ({score:.2f})"
            return _join(best, 0.5, reason, "fallback", candidates=shown)
        reason = f"{undecided}; nothing active is close enough in meaning ({score:.2f})"
        return _new(0.5, reason, "fallback", candidates=shown)
    recent = (now - best.updated_at).total_seconds() < 120
    if len(scored) == 1 and recent and best.awaiting is None:
        reason = (
            f"{undecided}, there is no embedder, and “{_short(best.goal)}” was spoken of just now"
        )
        return _join(best, 0.5, reason, "fallback", candidates=shown)
    return _new(0.5, f"{undecided}, and there is no embedder", "fallback", candidates=shown)


def _turns(state: RunLoopState) -> list[str]:
    """What a message is compared with: the goal and the newest turns."""
    turns = [state.goal, *(turn.text for turn in state.last_turns(ROUTER_TURNS))]
    return list(dict.fromkeys(t[:ROUTER_TURN_CHARACTERS] for t in turns if t.strip()))


def _join(
    state: RunLoopState,
    confidence: float,
    reason: str,
    method: str,
    *,
    candidates: tuple[RouteCandidate, ...] = (),
) -> Route:
    return Route.model_validate(
        {
            "decision": "join",
            "run_loop_id": state.id,
            "confidence": confidence,
            "method": method,
            "reason": reason,
            "candidates": candidates,
        }
    )


def _new(
    confidence: float,
    reason: str,
    method: str = "fallback",
    *,
    candidates: tuple[RouteCandidate, ...] = (),
) -> Route:
    return Route.model_validate(
        {
            "decision": "new",
            "confidence": confidence,
            "method": method,
            "reason": reason,
            "candidates": candidates,
        }
    )


def _candidates(
    scored: Sequence[tuple[RunLoopState, float | None]],
) -> tuple[RouteCandidate, ...]:
    return tuple(
        RouteCandidate(run_loop_id=state.id, goal=_short(state.goal), score=round(score, 4))
        for state, score in scored
        if score is not None
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
