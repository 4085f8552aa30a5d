"""What tools do in a run loop, and by whose leave: events of `service.domain.history.events`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.history.approval_rules import Narrowing


class _Done(BaseModel):
    model_config = ConfigDict(frozen=True)


GrantKind = Literal["not_needed", "asked", "run_loop", "always"]
"""``not_needed``: the tool and the settings ask nobody; ``asked``: a person said yes to this very
call; ``run_loop``: they have, earlier in this run loop, to what it is about; ``always``: they have
allowed that for good."""


class Grant(_Done):
    """By whose leave a tool call runs."""

    kind: GrantKind
    request_id: str | None = Field(default=None, exclude_if=lambda request_id: request_id is None)
    """For ``asked``: the question that was answered with yes."""
    narrowed: Narrowing | None = Field(default=None, exclude_if=lambda narrow: narrow is None)
    """For ``run_loop`` and ``always``: by what that yes is narrower than what it is about."""


class ToolStarted(_Done):
    """A tool begins to run."""

    type: Literal["tool.started"] = "tool.started"
    call_id: str
    name: str
    arguments: str
    """As it runs with them: a person may have changed what the model wrote."""
    idempotency_key: str
    effect: ToolEffect | None = Field(default=None, exclude_if=lambda effect: effect is None)
    """What the tool says of itself. Older journals do not tell; neither is known of a tool that is
    not there."""
    about: str | None = Field(default=None, exclude_if=lambda about: about is None)
    """What it runs, where that is narrower than the tool, such as a script with its hash; see
    `service.tools.approval.subject`."""
    grant: Grant | None = Field(default=None, exclude_if=lambda grant: grant is None)
    """Older journals do not tell."""


class ToolFinished(_Done):
    """A tool call has its one result."""

    type: Literal["tool.finished"] = "tool.finished"
    call_id: str
    name: str
    content: str
    """As the model is given it: of an over-long result the beginning and the end."""
    is_error: bool = False
    whole: str | None = None
    """The whole result, where `content` is a part of it."""
    notice: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether these are Rondo's own words, see `ToolResult`. Older journals do not say."""
    outside: bool = Field(default=False, exclude_if=lambda outside: not outside)
    """Whether the words come from outside, such as a page of the web: clients can show it."""
