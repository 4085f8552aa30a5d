"""Forgetting: what is to be forgotten, and what has been."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from service.domain.forgetting_terms import ForgetPreview, ForgetReceipt
from service.wire.daemon_bodies import ProblemDetails
from service.wire.time_parameters import Moment

_MOST_NAMED = 10_000


class ForgetBody(BaseModel):
    """What is to be forgotten; without `confirm`, it is only shown."""

    model_config = ConfigDict(extra="forbid")

    run_loop_ids: list[str] = Field(default=[], max_length=_MOST_NAMED)
    """Whole run loops; with a time, what they hold of it."""
    anchors: list[str] = Field(default=[], max_length=_MOST_NAMED)
    """RUN_LOOP_ID:ITERATION.SEGMENT; each forgets the iteration that it stands in."""
    since: Moment | None = None
    """Only from then on; with nothing else, all from then on."""
    until: Moment | None = None
    """Only from before then; with nothing else, all from before then."""
    query: str | None = Field(default=None, max_length=10_000)
    """What a search finds, each hit with its iteration."""
    limit: int = Field(default=8, ge=1, le=100)
    """At most so many hits."""
    exact: bool = False
    """Instead of searching: every iteration that holds the words of `query` just so."""
    all: bool = False
    """Everything that you have ever said and done here."""
    with_answers: bool = False
    """Also what models and tools said that had seen the words, where it tells them."""
    with_all_that_saw: bool = False
    """Also what they said where it does not seem to."""
    stop: bool = False
    """Cancel run loops that are active, and then forget them."""
    confirm: str | None = Field(default=None, max_length=100)
    """The code of a preview of the same request: forget what it showed. Left out: show it. Null is
    refused: it is what a preview says that cannot be confirmed."""

    @field_validator("confirm", mode="before")
    @classmethod
    def _is_a_code(cls, given: object) -> object:
        if given is None:  # only where it was given: the default is not looked at
            raise ValueError(
                "null is no code, and nothing was forgotten: the preview could not be confirmed;"
                " its `notice` says why. Leave `confirm` out for a preview"
            )
        return given


class ForgetReceipts(BaseModel):
    """What has been forgotten, newest first; none of the words."""

    receipts: list[ForgetReceipt]


class ForgetProblem(ProblemDetails):
    """Why nothing was forgotten, and how it stands now."""

    preview: ForgetPreview
