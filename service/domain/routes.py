"""Routes: which run loop a message belongs to, and why; and how well their probabilities hold."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from service.domain.run_loops import Timestamp

_LONGEST_GOAL = 60  # characters
RouteMethod = Literal["explicit", "embedding", "words", "llm", "person", "asked", "fallback"]
"""Who decided: the sender, by naming the loop; the trained model, with vectors or by words alone;
the language model; a person, by moving the message or by saying where it belongs; nobody yet, as a
person is asked; or nobody: Rondo's last resort."""


class RouteCandidate(BaseModel):
    """A run loop that was considered, and how likely the message belongs to it."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    run_loop_id: str
    goal: str
    """See `goal_as_named`. The journal does not keep it: whoever reads is told what it is now."""
    probability: float = Field(validation_alias=AliasChoices("probability", "score"))
    """0 to 1; together with that of a new loop they are 1. (Older journals: a likeness.)"""


class Route(BaseModel):
    """The decision for one message."""

    model_config = ConfigDict(frozen=True)

    decision: Literal["join", "new"]
    run_loop_id: str | None = None
    """The loop to join; None for a new one."""
    predecessor_id: str | None = None
    """For a new loop: the finished loop that it takes up again."""
    confidence: float = Field(ge=0, le=1)
    """How likely the decision is right, as far as whoever decided can tell."""
    method: RouteMethod
    reason: str
    """Why, in words. A goal that it quotes is kept no more than those of the candidates."""
    candidates: tuple[RouteCandidate, ...] = ()
    """Likeliest first."""
    new_probability: float | None = None
    """How likely the message opens a new topic; None where nothing was weighed."""
    model: str | None = None
    """The version of the trained model that weighed; None: of older journals, or nothing did."""
    calibration: tuple[float, float] | None = None
    """Temperature and offset of *new* with which its probabilities were made these; None: they are
    its own. See `service.routing.calibration.probability_calibration`."""
    alternatives: tuple[str, ...] = ()
    """Where the router was unsure: what else it could have been, likeliest first: run loops among
    the `candidates`, by their ids, or ``new``."""
    latency_ms: float | None = None
    """How long deciding took; None where there was nothing to decide."""
    moved_from: str | None = None
    """For a message that a person moved: the loop that it was in."""
    undo: bool = Field(default=False, exclude_if=lambda undo: not undo)
    """Whether a move was undone by that: the message is back where it was."""


def goal_as_named(goal: str) -> str:
    """What a run loop is about, as the router names it: on one line, and shortened; perhaps empty.

    >>> goal_as_named("Rent a flat\\nin Basel")
    'Rent a flat in Basel'
    """
    line = " ".join(goal.split())
    return line if len(line) <= _LONGEST_GOAL else f"{line[: _LONGEST_GOAL - 1]}…"


def alternatives_of(route: Route) -> tuple[RouteCandidate, ...]:
    """What else an unsure route could have been, with what each is about; ``new`` without words.

    >>> bill = RouteCandidate(run_loop_id="b", goal="A bill", probability=0.3)
    >>> route = Route(decision="join", run_loop_id="a", confidence=0.5, method="words", reason="",
    ...     candidates=(bill,), new_probability=0.2, alternatives=("b", "new"))
    >>> [(each.goal, each.probability) for each in alternatives_of(route)]
    [('A bill', 0.3), ('', 0.2)]
    """
    by_id = {each.run_loop_id: each for each in route.candidates}
    new = RouteCandidate(run_loop_id="new", goal="", probability=route.new_probability or 0.0)
    alternatives = (new if each == "new" else by_id.get(each) for each in route.alternatives)
    return tuple(each for each in alternatives if each is not None)


class Measured(BaseModel):
    """How good the router's probabilities are on decisions of which it is known what was right."""

    model_config = ConfigDict(frozen=True)

    log_loss: float
    """The mean of -log of the probability of what was right, in nats; smaller is better."""
    accuracy: float
    """How often the likeliest was right."""


class CalibrationInUse(BaseModel):
    """By what the router's probabilities are made those that count; as the file has it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Above 1: decisions are less sure than the model takes them to be."""
    new_offset: float = Field(default=0.0, allow_inf_nan=False)
    """Above 0: new topics are more frequent than the model takes them to be."""
    corrections: int = 0
    """Decisions that a person had corrected, or was asked about, when it was fitted."""
    decisions: int = 0
    """All decisions that it was fitted on."""
    fitted_at: Timestamp | None = None
    """None: the model's own probabilities count."""
    model: str
    """The version of the model that it belongs to."""


class CalibrationReport(BaseModel):
    """What a calibration has come to."""

    changed: bool
    reason: str
    """Why, or why not, in words."""
    corrections: int
    """Decisions that a person has corrected, or was asked about."""
    needed: int
    """How many of these there must be."""
    decisions: int
    """All decisions that count, with those that nobody has corrected."""
    before: Measured | None = None
    """As it was; None where there was too little to tell."""
    after: Measured | None = None
    """As is to be expected with the new calibration: each decision is judged by one that was fitted
    without it."""
    in_use: CalibrationInUse
    """From now on."""
