"""What a run loop asks a person, and what they answer: events of
`service.domain.history.events`."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain.conversation.messages import ToolCall
from service.domain.history.approval_rules import NarrowedRule, Narrowing

ELICITATION: Final = "elicitation"
"""In the metadata of a question: what a tool that asks in the middle of a call is given back."""


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True)


class InputRequired(_Said):
    """The loop waits for a person."""

    type: Literal["input.required"] = "input.required"
    request_id: str
    kind: Literal["approve", "prompt", "select"]
    prompt: str
    """The question in words."""
    tool_calls: tuple[ToolCall, ...] = ()
    """For ``approve``: the calls that wait."""
    options: tuple[str, ...] = ()
    """For ``select``: what can be chosen."""
    multiple: bool = False
    """For ``select``: whether several can be chosen."""
    call_id: str | None = None
    """For ``prompt`` and ``select``: the tool call that the answer becomes the result of; None: the
    answer is what the person says next."""
    metadata: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """For ``prompt`` and ``select``: what whoever asks has given along, for whoever shows it."""
    about: Literal["route"] | None = Field(default=None, exclude_if=lambda about: about is None)
    """``route``: the router asks which run loop the message belongs to."""
    run_loop_ids: tuple[str, ...] = Field(default=(), exclude_if=lambda ids: not ids)
    """Then: the run loop of each option but the last, which is a new topic."""
    scopes: dict[str, str | None] = {}
    """For ``approve``: by the id of a call, what it is about, where that is narrower than its tool;
    see `service.tools.approval.subject`."""
    rules: dict[str, str | None] = Field(default_factory=dict, exclude_if=lambda rules: not rules)
    """For ``approve``: by the id of a call, what a yes that is remembered would cover, in words of
    `service.tools.approval.ApprovalPolicy.scope`; None: none is remembered."""
    descriptions: dict[str, str] = Field(default_factory=dict, exclude_if=lambda words: not words)
    """For ``approve``: by the id of a call, what it comes to, where its tool can tell."""
    warnings: tuple[str, ...] = Field(default=(), exclude_if=lambda warnings: not warnings)
    """For ``approve``: what a person has to know before they say yes, in sentences."""
    previews: dict[str, str] = Field(default_factory=dict, exclude_if=lambda shown: not shown)
    """For ``approve``: by the id of a call, what it would do, in lines, such as the difference to a
    file. The yes is to just that."""
    message_id: str | None = Field(default=None, exclude_if=lambda message_id: message_id is None)
    """The message that named none of the options, and is answered by this: they are asked again."""


NEW_RUN_LOOP: Final = "new"
"""Stands where the id of a run loop stands, and says that a message belongs to none: from its
sender, or in answer to the router. No run loop has this id."""


class CallDecision(_Said):
    """A person's decision about one of several calls that wait."""

    call_id: str
    approved: bool | None = None
    """None: as for the request as a whole."""
    reason: str | None = None
    """Why not."""
    arguments: str | None = None
    """JSON to run the call with, instead of what the model wrote."""


Remember = Literal["run_loop", "always"]
"""How long a yes holds: for this run loop, or for good."""


class InputReceived(_Said):
    """A person answered. For ``approve``: `approved`; else `text` or `choices`."""

    type: Literal["input.received"] = "input.received"
    request_id: str
    approved: bool | None = None
    text: str | None = None
    """The answer in words; for a denial, its reason."""
    choices: tuple[str, ...] = ()
    """For ``select``: what was chosen; where the router had asked, the id of the run loop, or
    `NEW_RUN_LOOP`."""
    decisions: tuple[CallDecision, ...] = ()
    """For ``approve``: where calls differ from the rest."""
    remember: Remember | None = None
    scopes: tuple[str, ...] = ()
    """What a remembered yes covers, see `service.tools.approval`; nothing where it is narrowed: a
    version that knows of no `rules` asks then."""
    narrow: Narrowing | None = Field(default=None, exclude_if=lambda narrow: narrow is None)
    """By what the person has narrowed a yes that is remembered."""
    rules: tuple[NarrowedRule, ...] = Field(default=(), exclude_if=lambda rules: not rules)
    """What it covers then."""
    subjects: dict[str, str | None] = {}
    """By the id of a call that was allowed, what the yes is about, as in `InputRequired.scopes`."""
    message_id: str | None = Field(default=None, exclude_if=lambda message_id: message_id is None)
    """The message that was taken for the answer, if it was one: it is heard with this."""

    def decision(self, call_id: str) -> CallDecision:
        """What was decided about one call. Anything but a clear yes is a no."""
        for each in self.decisions:
            if each.call_id == call_id:
                approved = self.approved if each.approved is None else each.approved
                reason = self.text if each.reason is None else each.reason
                return each.model_copy(update={"approved": approved is True, "reason": reason})
        return CallDecision(call_id=call_id, approved=self.approved is True, reason=self.text)
