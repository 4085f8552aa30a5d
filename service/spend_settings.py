"""The settings of caps on spending: over all run loops, all owners and all that goes with them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SpendSettings(BaseModel):
    """What all model calls together may use in a day or a month of the daemon's local time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    daily_tokens: int | None = Field(default=None, gt=0)
    """Prompts and answers together."""
    daily_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """In the currency of ``llm.prices``. 0: only models that cost nothing are asked."""
    monthly_tokens: int | None = Field(default=None, gt=0)
    monthly_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
