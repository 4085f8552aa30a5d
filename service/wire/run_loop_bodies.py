"""Run loops: a list, one whole, and what can be done with one."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    model_validator,
)

from service.domain.errors import Problem
from service.domain.history.approval_rules import Narrowing
from service.domain.history.events import ForkPoint
from service.domain.history.human_input import InputRequired, Remember
from service.domain.routes import Route
from service.domain.run_loops import RunLoop, RunLoopSummary, Timestamp
from service.domain.usage import LoopUsage


class DecidedRoute(BaseModel):
    """Why a message came to a run loop."""

    message_id: str
    at: Timestamp
    route: Route
    iteration: int | None
    """The index of the iteration that has observed it; None: none yet."""
    moved_to: str | None
    """The run loop to which a person has moved it since."""

    @property
    def is_here(self) -> bool:
        """Whether it is still in this run loop."""
        return self.moved_to is None


class RunLoopLine(RunLoopSummary):
    """A run loop in a list, and why its newest message is there; a long goal is shortened."""

    route: Route | None
    """None where that message was moved away, or where nobody asked why."""
    moved_to: str | None
    """Where that message was moved, if it was; None, too, where nobody asked why."""


Seq = Annotated[int, Field(ge=1, lt=2**63, strict=True)]
"""The number of an event."""


class RunLoopPage(BaseModel):
    """A part of the list."""

    run_loops: list[RunLoopLine]
    next_before: str | None
    """What to send as `before` for the part after this one; None at the end."""


class RunLoopDetails(RunLoop):
    """A run loop, whole."""

    updated_at: Timestamp
    last_seq: int
    """The number of its newest event."""
    forked_from: ForkPoint | None
    """For a fork: the loop whose history it shares, and up to which event."""
    routes: list[DecidedRoute]
    """For each message that came in: why it came here."""
    input_required: InputRequired | None
    """What a person is asked, while the loop waits for an answer."""
    problem: Problem | None
    """Why it failed."""
    usage: LoopUsage
    model: str
    """The name of the model that its next call asks."""


class ForkRequest(BaseModel):
    """Where a run loop is to be forked."""

    model_config = ConfigDict(extra="forbid")

    at: Seq | None = None
    """The number of the last event that the fork has in common with it; None: all that there are,
    but for the end of one that has ended."""


class Fork(RunLoop):
    """A run loop that goes on by itself from a place in another one's history."""

    forked_from: ForkPoint | None
    last_seq: int
    """The number of the last event that was copied: what the fork does comes after it."""


class CompactedLoop(BaseModel):
    """What summarising the old rounds of a run loop has come to."""

    run_loop_id: str
    messages: int
    """How many messages of the conversation were put in fewer words, the oldest ones."""
    method: Literal["model", "extract"]
    """Who wrote the summaries: the model, or built-in rules."""
    tokens_before: int
    tokens_after: int
    """About how long the next model call is, before and after."""


class RerouteRequest(BaseModel):
    """Where a message belongs; or that its last move is undone."""

    model_config = ConfigDict(extra="forbid")

    message_id: str | None = None
    """None: the newest message of the run loop that was no answer. The same request again, with
    nothing said there since, moves nothing more."""
    to: str | None = None
    """Must be given, but to undo. The run loop where it belongs, active or ended; null, or
    ``new``: a new one."""
    undo: bool = False
    """The last move of the message, out of this run loop or into it, is taken back."""

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.undo == ("to" in self.model_fields_set):
            raise ValueError("give either `to`, a run loop or null for a new one, or `undo`: true")
        return self


class Rerouted(BaseModel):
    """What was moved, and where to."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    moved: list[str]
    """The messages: those that were observed together are moved together."""
    from_run_loop_id: Annotated[str, Field(alias="from")]
    to: str
    run_loop: RunLoop
    """The one that they are in now."""


YesOrNo = Annotated[bool | None, Field(strict=True)]


class CallAnswer(BaseModel):
    """What is decided about one of the calls that wait."""

    model_config = ConfigDict(extra="forbid")

    approved: YesOrNo = None
    """As for the request as a whole, when it is not given."""
    text: str | None = None
    """For a no, its reason."""
    arguments: dict[str, JsonValue] | None = None
    """What to run the call with, instead of what the model wrote. With a yes."""


class NarrowRequest(BaseModel):
    """By what a yes is to be narrower. What is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    arguments: StrictBool = False
    """To the very arguments of the call that is asked about."""
    until: AwareDatetime | None = None
    """To the time before this moment."""

    @property
    def narrowing(self) -> Narrowing:
        """The same, as it is journaled."""
        return Narrowing(arguments=self.arguments, until=self.until)


class InputAnswer(BaseModel):
    """A person's answer to a run loop that waits for one."""

    model_config = ConfigDict(extra="forbid")

    approved: YesOrNo = None
    """For a question of the kind ``approve``: whether the calls may run."""
    text: str | None = None
    """The answer in words; for a no, its reason. Not with a yes: the words may say otherwise."""
    choices: list[str] | None = None
    """For ``select``: what is chosen, word for word as in the options."""
    remember: Remember | None = None
    """How long a yes holds: for this run loop, or for good; see ``/v1/approvals``."""
    narrow: NarrowRequest | None = None
    """By what one that is remembered is narrower: to the very arguments of each call, to a time."""
    calls: dict[str, CallAnswer] = Field(default_factory=dict)
    """By the id of a call: what differs from the rest."""
    arguments: dict[str, JsonValue] | None = None
    """When one call waits: what to run it with."""
    request_id: str | None = None
    """Which question is answered; needed where the run loop has asked more than one. With it, an
    answer can be sent again: it counts once."""


class YesRule(BaseModel):
    """What a yes that is remembered would cover."""

    scope: str
    tool: str
    arguments: str | None
    """JSON; it would cover calls with these alone. None: with any."""
    until: Timestamp | None
    rule: str
    """All of it in words."""


class YesRules(BaseModel):
    """What an answer would allow for longer; nothing where it allows nothing."""

    rules: list[YesRule]
