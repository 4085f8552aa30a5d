"""A run loop as the router's model reads it: what was said in it last, by whom, and when.

Where a route is unsure, the others are told, for a person to see and mend. The trained model knows
of a loop that waits only that it asks; here the question and its options are weighed against the
message, and the model's probabilities are corrected by what that says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from service.domain.forgetting_terms import FORGOTTEN
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.history.state import RunLoopState
from service.domain.routes import Route
from service.domain.run_loops import Iteration
from service.routing.features.answer_features import EXPECTING_FEATURES, expecting
from service.routing.routing_model import Judgement, shipped
from service.routing.text.text_reading import MOST_TURNS, Asked, Candidate, Turn, Vector
from service.tuning import (
    EXPECTED_MOST,
    EXPECTED_WEIGHTS,
    EXPECTED_WORDS_ONLY_WEIGHTS,
    ROUTER_ALTERNATIVE_LEAST,
    ROUTER_MOST_ALTERNATIVES,
    ROUTER_MOST_STEPS,
)

VERSION = "waiting 2"
"""Of these weights: decisions that they had a part in say so in `Route.model`."""


def with_questions(
    judgement: Judgement, text: str, candidates: Sequence[Candidate], vector: Vector | None
) -> Judgement:
    """A judgement in which each loop that waits is as likely as what it asks makes it.

    What is left is shared among the others, and *new*, as the trained model had it.
    """
    waiting = [at for at, each in enumerate(candidates) if each.asked is not None]
    if not waiting:
        return judgement
    usable_vector = vector if judgement.by_meaning else None
    opens = opens_of(text, usable_vector)
    likely = {at: _likely(text, usable_vector, candidates, at, opens) for at in waiting}
    # Two cannot both be meant.
    whole = max(1.0, math.fsum(likely.values()) / EXPECTED_MOST)
    likely = {at: share / whole for at, share in likely.items()}
    left = 1.0 - math.fsum(likely.values())
    rest = judgement.new + math.fsum(
        share for at, share in enumerate(judgement.probabilities) if at not in likely
    )
    scale = left / rest if rest > 0 else 0.0
    probabilities = tuple(
        likely.get(at, share * scale) for at, share in enumerate(judgement.probabilities)
    )
    new = judgement.new * scale if rest > 0 else left
    best = int(np.argmax(probabilities))
    if new >= probabilities[best]:
        why = judgement.reason if judgement.best is None else _NO_ANSWER
        return replace(judgement, probabilities=probabilities, new=new, best=None, reason=why)
    why = judgement.reason
    if best in likely:
        why = _ANSWERS
    elif judgement.best != best:
        why = _NO_ANSWER
    return replace(judgement, probabilities=probabilities, new=new, best=best, reason=why)


_ANSWERS = "it waits for an answer, and this is said to what it asks"
_NO_ANSWER = "this is no answer to what another one asks"


def opens_of(text: str, vector: Vector | None) -> float:
    """How much a message is like those that open a topic; NaN: not known."""
    openings = shipped().openings
    if vector is None or not openings.knows(text):
        return math.nan
    return openings.opens(vector)


def _likely(
    text: str,
    vector: Vector | None,
    candidates: Sequence[Candidate],
    at: int,
    opens: float,
) -> float:
    others = [each for place, each in enumerate(candidates) if place != at]
    features = expecting(text, vector, candidates[at], others, opens=opens)
    weights = EXPECTED_WORDS_ONLY_WEIGHTS if vector is None else EXPECTED_WEIGHTS
    learned = np.array([weights[name] for name in EXPECTING_FEATURES])
    score = float(features @ learned) + weights["constant"]
    return min(1 / (1 + math.exp(-score)), EXPECTED_MOST)


def candidate_of(state: RunLoopState, *, most_steps: int = ROUTER_MOST_STEPS) -> Candidate:
    """A run loop with its newest turns, oldest first, without vectors.

    Read from the iterations, which compaction leaves as they are. Takes time for the turns that it
    gives, however long the loop is; so the number of all turns is an estimate where there are more.
    """
    turns = _not_yet_answered(state)
    steps = 0
    for step in _backwards(state):
        if len(turns) >= MOST_TURNS or steps >= most_steps:
            break
        turns += _of_step(step, state)
        steps += 1
    is_all = steps == state.iteration_count - len(state.taken_back)
    count = len(turns) if is_all else _estimate(turns, steps, state)
    goal = state.goal if state.goal != FORGOTTEN else ""
    return Candidate(
        id=state.id,
        goal=Turn(goal, "user", state.created_at.timestamp()),
        turns=tuple(reversed(turns[:MOST_TURNS])),
        turn_count=count,
        awaiting=state.awaiting is not None,
        asked=_asked(state),
    )


def _asked(state: RunLoopState) -> Asked | None:
    request = state.awaiting
    if request is None or request.about is not None or not _says_something(request.prompt):
        return None
    at = _answered_at(state).timestamp()
    return Asked(
        kind=request.kind,
        question=Turn(request.prompt, "assistant", at),
        options=tuple(Turn(option, "assistant", at) for option in request.options),
        multiple=request.multiple,
    )


def _not_yet_answered(state: RunLoopState) -> list[Turn]:
    """What came after the last iteration, newest first: the question asked, and new messages."""
    turns = [
        Turn(each.message.text, "user", (each.at or state.updated_at).timestamp())
        for each in reversed(state.unseen)
        if _says_something(each.message.text)
    ]
    if state.awaiting is not None and _says_something(state.awaiting.prompt):
        turns.append(Turn(state.awaiting.prompt, "assistant", _answered_at(state).timestamp()))
    return turns


def _backwards(state: RunLoopState) -> Iterator[Iteration]:
    if state.iteration is not None:
        yield state.iteration
    for index in range(len(state.closed_iterations) - 1, -1, -1):
        yield state.closed_iterations[index]


def _of_step(step: Iteration, state: RunLoopState) -> list[Turn]:
    if step.forgotten:
        return []
    turns = []
    if step.response and _says_something(step.response):
        at = _answered_at(state) if step is state.iteration else step.timestamp
        turns.append(Turn(step.response, "assistant", at.timestamp()))
    if step.user_message and _says_something(step.user_message):
        turns.append(Turn(step.user_message, "user", step.timestamp.timestamp()))
    return turns


def _answered_at(state: RunLoopState) -> datetime:
    """When the assistant last spoke: an iteration knows only when it began."""
    if state.unseen or state.iteration is None or state.status == "running":
        return state.updated_at if state.iteration is None else state.iteration.timestamp
    return state.updated_at


def _says_something(text: str) -> bool:
    return text != FORGOTTEN and not text.isspace() and text != ""


def _estimate(turns: list[Turn], steps: int, state: RunLoopState) -> int:
    return round(len(turns) * state.iteration_count / max(steps, 1))


def with_alternatives(route: Route, *, below: float) -> Route:
    """The route; where it is less sure than that, with the likeliest of what was not chosen.

    Args:
        route: as it was decided, with the candidates that were weighed.
        below: the least confidence with which a route is sure; 0: every one is.
    """
    if route.confidence >= below or route.new_probability is None:
        return route
    others = [
        (each.probability, each.run_loop_id)
        for each in route.candidates
        if each.run_loop_id != route.run_loop_id
    ]
    if route.decision == "join":
        others.append((route.new_probability, NEW_RUN_LOOP))
    others.sort(key=lambda each: each[0], reverse=True)
    likely = [each for each in others if each[0] >= ROUTER_ALTERNATIVE_LEAST]
    shown = (likely or others[:1])[:ROUTER_MOST_ALTERNATIVES]
    return route.model_copy(update={"alternatives": tuple(name for _, name in shown)})
