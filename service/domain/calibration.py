"""What is told of the router's calibration, which `service.routing.calibration` makes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from service.domain.run_loops import Timestamp


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
