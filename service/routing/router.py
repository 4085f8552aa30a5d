"""The router: which run loop a message belongs to, and why.

A named loop is taken. Else a small trained model says how likely the message belongs to each open
loop, or to none; where it is not sure the language model is asked, and where that cannot say, the
likeliest is taken all the same. It always gives a reason in words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread

from service.domain.errors import BudgetError, LLMError
from service.domain.forgetting_terms import FORGOTTEN
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.history.state import RunLoopState
from service.domain.routes import Route, RouteCandidate, RouteMethod, goal_as_named
from service.domain.run_loops import RESUMABLE
from service.domain.usage import Prices
from service.llm.protocol import LLM
from service.llm.spending.accounts import Account
from service.memory.journal.change_feed import Change, ChangeFeed, rests
from service.memory.journal.protocol import Journal
from service.memory.ledger import terms
from service.routing import candidate_loops as expected_answers
from service.routing.calibration.probability_calibration import UNCALIBRATED, Calibration
from service.routing.candidate_loops import candidate_of, with_alternatives, with_questions
from service.routing.llm_judge import judge
from service.routing.open_loop_vectors import EmbedQueries, TurnVectors
from service.routing.routing_model import Judgement, shipped
from service.routing.routing_options import RouterOptions
from service.routing.text.text_reading import Candidate, Vector
from service.routing.text.text_reading import clear_cache as clear_text_cache
from service.tuning import (
    ROUTER_LLM_CANDIDATES,
    ROUTER_LLM_LEAST,
    ROUTER_LLM_RELIABILITY,
    ROUTER_MOST_CANDIDATES,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What the trained model says of a message."""

    candidates: Sequence[Candidate]
    """Likeliest first."""
    probabilities: Sequence[float]
    """Of the candidates."""
    new: float
    joins: bool
    """Whether the likeliest is the first candidate; else it is a new loop."""
    reason: str
    by_meaning: bool
    """Whether vectors were weighed, too."""
    calibration: Calibration
    """By which the model's probabilities were made these."""

    @property
    def confidence(self) -> float:
        """The probability of the likeliest."""
        return self.probabilities[0] if self.joins else self.new


class Router:
    """Decides for each message. `keep_ready` beside it has decisions wait for nothing else."""

    def __init__(
        self,
        llm: LLM,
        embed: EmbedQueries,
        options: RouterOptions | None = None,
        *,
        auto_classify: bool = True,
        prices: Prices | None = None,
        calibration: Callable[[], Calibration] = lambda: UNCALIBRATED,
    ) -> None:
        """Name the parts; nothing is loaded yet.

        Args:
            llm: asked where the trained model is not sure.
            embed: gives vectors of the embedder that the trained model knows; None without it.
            options: what it does where it is not sure.
            auto_classify: False: every message that names no loop opens one.
            prices: of the language model.
            calibration: gives what makes of the trained model's probabilities those that count;
                called in a worker thread.
        """
        self.options = options or RouterOptions()
        self._llm = llm
        self._vectors = TurnVectors(embed)
        self._auto_classify = auto_classify
        self._prices = prices
        self._calibration = calibration
        self._prepared: dict[str, int] = {}
        """Loops whose vectors are made, each up to this event."""
        self._reported: set[type[Exception]] = set()
        self._cleared = 0
        """How often it was."""

    async def route(
        self,
        text: str,
        *,
        active: Sequence[RunLoopState],
        now: datetime,
        requested: RunLoopState | Literal["new"] | None = None,
        account: Account | None = None,
    ) -> Route:
        """Decide where a message belongs.

        Args:
            text: the message.
            active: the sender's active loops, those that changed last first.
            now: when it came.
            requested: the loop that the sender named, if any; or that it opens a new topic.
            account: by what a call of the language model is let through, and counted, also one
                that came to nothing; None: nobody counts it.
        """
        if requested == NEW_RUN_LOOP:
            reason = "the sender said that it is new"
            return Route(decision="new", confidence=1.0, method="explicit", reason=reason)
        if requested is not None:
            return _explicit(requested)
        if not self._auto_classify:
            reason = "every message without an id opens a run loop (auto_classify is off)"
            return Route(decision="new", confidence=1.0, method="fallback", reason=reason)
        if not active:
            reason = "no run loop is active"
            return Route(decision="new", confidence=1.0, method="fallback", reason=reason)
        began = anyio.current_time()
        weighed = await self._weigh(text, active[:ROUTER_MOST_CANDIDATES], now)
        route = await self._decide(text, weighed, account)
        took = round((anyio.current_time() - began) * 1000, 2)
        route = route.model_copy(update={"latency_ms": took})
        return with_alternatives(route, below=self.options.unsure_below)

    async def keep_ready(self, journal: Journal) -> None:
        """Keep vectors ready for decisions, and drop what was forgotten, until cancelled."""
        try:
            await anyio.to_thread.run_sync(shipped)
        except Exception:
            log.exception("the router's model cannot be read")  # each route will say so
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_forgetting, journal.changes)
            with journal.changes.subscribe("router", _calls_for_vectors) as changes:
                while True:
                    number = journal.changes.last
                    await self.prepare(journal.states())
                    changes.done(number)
                    await changes.changed()

    async def _follow_forgetting(self, feed: ChangeFeed) -> None:
        name = "routing cache"
        with feed.subscribe(name, lambda change: change.lost_words, holds_words=True) as changes:
            while True:
                number = await changes.changed()
                self.clear()
                changes.done(number)

    async def prepare(self, states: Sequence[RunLoopState]) -> None:
        """Make the vectors of what is said in open loops, as far as there are none yet.

        Args:
            states: of the open loops, those that changed last first.
        """
        cleared = self._cleared
        open_loops = states[:ROUTER_MOST_CANDIDATES]
        grown = [each for each in open_loops if self._prepared.get(each.id) != each.last_seq]
        try:
            made = await self._vectors.make_ahead(map(candidate_of, grown))
        except Exception as error:
            made = False
            if type(error) not in self._reported:  # not again whenever a loop comes to rest
                self._reported.add(type(error))
                log.exception("what was said cannot be embedded ahead of time")
        if made and self._cleared == cleared:
            self._prepared = {each.id: each.last_seq for each in open_loops}
            self._reported.clear()

    def clear(self) -> None:
        """Keep no words: some were forgotten."""
        self._vectors.clear()
        clear_text_cache()
        self._prepared = {}
        self._cleared += 1

    async def _weigh(self, text: str, active: Sequence[RunLoopState], now: datetime) -> _Weighed:
        cleared = self._cleared
        vector, candidates = await self._vectors.of_message(text, [*map(candidate_of, active)])
        judging = partial(self._judged, text, now.timestamp(), candidates, vector)
        try:
            judgement, calibration = await anyio.to_thread.run_sync(judging)
        finally:
            if cleared != self._cleared:  # what was forgotten meanwhile shall not come back
                terms.clear_cache()
                clear_text_cache()
        order = sorted(range(len(candidates)), key=lambda place: -judgement.probabilities[place])
        return _Weighed(
            candidates=[candidates[place] for place in order],
            probabilities=[judgement.probabilities[place] for place in order],
            new=judgement.new,
            joins=judgement.best is not None,
            reason=judgement.reason,
            by_meaning=judgement.by_meaning,
            calibration=calibration,
        )

    def _judged(
        self, text: str, at: float, candidates: Sequence[Candidate], vector: Vector | None
    ) -> tuple[Judgement, Calibration]:
        """Blocks: for milliseconds, and for longer where the model is still to be read."""
        calibration = self._calibration()
        recalibrated = calibration.applied
        judgement = shipped().judge(text, at, candidates, vector, recalibrated=recalibrated)
        return with_questions(judgement, text, candidates, vector), calibration

    async def _decide(self, text: str, weighed: _Weighed, account: Account | None) -> Route:
        if weighed.confidence >= self.options.sure_above:
            method: RouteMethod = "embedding" if weighed.by_meaning else "words"
            return _likeliest(weighed, method)
        judged = await self._by_judgement(text, weighed, account)
        if isinstance(judged, Route):
            return judged
        return _likeliest(weighed, "fallback", why_not_judged=judged)

    async def _by_judgement(
        self, text: str, weighed: _Weighed, account: Account | None
    ) -> Route | str:
        """The language model's decision, or why there is none, in words."""
        if not self.options.use_llm:
            return "the language model is not asked (router.use_llm)"
        if not self._llm.status().ready:
            return "the language model is not ready"
        offered = _offered(weighed)
        timeout = self.options.llm_timeout_seconds
        try:
            with anyio.fail_after(timeout):
                chosen = await judge(self._llm, text, offered, account=account, prices=self._prices)
        except (LLMError, BudgetError) as error:
            return f"{error.title[:1].lower()}{error.title[1:]}"
        except TimeoutError:
            return f"the language model did not answer within {timeout:g} s"
        before = weighed.new if chosen is None else weighed.probabilities[chosen]
        confidence = agreed(before)
        if chosen is None:
            reason = "the language model judged that it opens a new topic"
            return _route(weighed, None, "llm", confidence, reason)
        goal = _named(offered[chosen])
        reason = f"the language model judged that it goes on with “{goal}”"
        return _route(weighed, offered[chosen].id, "llm", confidence, reason)


def agreed(probability: float) -> float:
    """How likely an option is once the language model has chosen it, by Bayes' rule.

    The language model is taken to be right with probability `ROUTER_LLM_RELIABILITY` whatever is
    right, and, where it is wrong, to choose just this: what it confuses lies near.

    >>> round(agreed(0.5), 2), round(agreed(0.1), 2)
    (0.7, 0.21)

    Args:
        probability: of the option before.
    """
    right = ROUTER_LLM_RELIABILITY * probability
    wrong = (1 - ROUTER_LLM_RELIABILITY) * (1 - probability)
    return right / (right + wrong)


def _calls_for_vectors(change: Change) -> bool:
    return rests(change) or change.lost_words


def _offered(weighed: _Weighed) -> Sequence[Candidate]:
    """The candidates that the language model may choose from: at least one."""
    likely = sum(each >= ROUTER_LLM_LEAST for each in weighed.probabilities)
    return weighed.candidates[: max(1, min(likely, ROUTER_LLM_CANDIDATES))]


def _explicit(requested: RunLoopState) -> Route:
    reason = "the sender named this run loop"
    if requested.is_active or requested.status in RESUMABLE:
        if not requested.is_active:
            reason = f"{reason}, which was {requested.status}: it goes on"
        return Route(
            decision="join",
            run_loop_id=requested.id,
            confidence=1.0,
            method="explicit",
            reason=reason,
        )
    return Route(
        decision="new",
        predecessor_id=requested.id,
        confidence=1.0,
        method="explicit",
        reason=f"the sender named a run loop that is {requested.status}: a new one takes it up",
    )


def _likeliest(weighed: _Weighed, method: RouteMethod, *, why_not_judged: str = "") -> Route:
    """What the trained model holds for likeliest, and why nobody else has decided, if so."""
    it, end = ("most likely it", f"; {why_not_judged}") if why_not_judged else ("it", "")
    confidence = weighed.confidence
    if not weighed.joins:
        reason = f"{it} opens a new topic: {weighed.reason}{end}"
        return _route(weighed, None, method, confidence, reason)
    best = weighed.candidates[0]
    reason = f"{it} goes on with “{_named(best)}”: {weighed.reason}{end}"
    return _route(weighed, best.id, method, confidence, reason)


def _route(
    weighed: _Weighed, run_loop_id: str | None, method: RouteMethod, confidence: float, reason: str
) -> Route:
    return Route(
        decision="new" if run_loop_id is None else "join",
        run_loop_id=run_loop_id,
        confidence=round(min(max(confidence, 0.0), 1.0), 4),
        method=method,
        reason=reason,
        candidates=tuple(
            RouteCandidate(
                run_loop_id=each.id,
                goal=_named(each),
                probability=round(probability, 4),
            )
            for each, probability in zip(weighed.candidates, weighed.probabilities, strict=True)
        ),
        new_probability=round(weighed.new, 4),
        model=_model(weighed),
        calibration=weighed.calibration.parameters,
    )


def _model(weighed: _Weighed) -> str:
    """Which model weighed: where a loop waited, not the trained one alone."""
    asked = any(each.asked is not None for each in weighed.candidates)
    return f"{shipped().version}/{expected_answers.VERSION}" if asked else shipped().version


def _named(candidate: Candidate) -> str:
    return goal_as_named(candidate.goal.text) or FORGOTTEN
