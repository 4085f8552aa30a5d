"""The daemon: how it is, what it works with, what the assistant may do, and what went wrong."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, StrictBool

from service import __version__
from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.run_loops import Timestamp
from service.wire.run_loop_bodies import NarrowRequest


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class ReadyPart(BaseModel):
    """A part of the daemon, and how it is."""

    ready: bool
    detail: str
    """In words."""


class Readiness(BaseModel):
    """Whether a message would be answered now. Without a model it is kept safe all the same."""

    ready: bool
    agent: ReadyPart
    llm: ReadyPart
    memory: ReadyPart


class Welcome(BaseModel):
    """What answers here, and where to go on."""

    name: str = "Rondo"
    version: str = __version__
    docs: str = "/docs"
    health: str = "/healthz"


class EffectiveSettings(BaseModel):
    """The settings that the daemon was started with."""

    model: str
    """Which language model answers, in words."""
    models: dict[str, str]
    """The models that a message can name, and which they are, in words; ``default`` is `model`."""
    disclaimer: str
    """What a small model is not good for, in one line; empty for others."""
    settings: dict[str, Any]
    """All of them, as `rondo config` prints them; secrets are hidden."""


class AutoEnhanceSwitch(BaseModel):
    """Whether answers are looked over."""

    model_config = ConfigDict(extra="forbid")

    enabled: StrictBool
    """For the owner who asks; until the daemon ends, then `agent.auto_enhance` counts again."""


class CalibrateRequest(BaseModel):
    """What is wanted."""

    model_config = ConfigDict(extra="forbid")

    reset: StrictBool = False
    """Let the trained model's own probabilities count again, instead of fitting anew."""


class OfferedTool(BaseModel):
    """A tool that the assistant may call."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of its arguments."""
    effect: ToolEffect
    needs_approval: bool
    """Whether a person must agree to each call, where none was allowed for longer. Rules can ask
    for some calls of other tools too."""
    timeout_seconds: float
    """How long one call may take."""


class WithheldTool(BaseModel):
    """A tool that is not offered."""

    name: str
    """Of tools of one's own whose module cannot be loaded: what the settings name."""
    reason: str
    """Why, and what to do about it."""


class ToolServer(BaseModel):
    """An MCP server of the settings."""

    name: str
    where: str
    """Its program or its address."""
    is_there: bool
    tools: int
    """How many of its tools are offered now."""
    held: list[str]
    """Tools that are held until their new words are looked at."""
    words: str
    """How it is, and what to do, in a sentence."""


class Tools(BaseModel):
    """The tools."""

    tools: list[OfferedTool]
    not_offered: list[WithheldTool]
    servers: list[ToolServer] = []


class ToolWords(BaseModel):
    """What the model would be told of a tool."""

    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of its arguments."""


class ToolServerChange(BaseModel):
    """A tool of a server that says something else than what was accepted."""

    name: str
    kind: Literal["new", "changed"]
    before: ToolWords | None
    """None for a new one."""
    after: ToolWords


class ToolServerChanges(BaseModel):
    """What of a server waits to be looked at."""

    server: str
    changes: list[ToolServerChange]
    digest: str
    """To be given back with a yes, so that nothing is accepted that was not shown."""


class AcceptChanges(BaseModel):
    """A yes to what a server's tools say."""

    model_config = ConfigDict(extra="forbid")

    digest: str
    """Of what was looked at."""


class AcceptedChanges(BaseModel):
    """What was accepted."""

    accepted: int
    """How many tools."""


class Approval(BaseModel):
    """A yes that holds until it is taken back, or until its time is over."""

    id: str
    """Tells it from others of its scope."""
    scope: str
    """What it covers: a tool's name, and what the tool narrows it down to, such as one script."""
    tool: str
    granted_at: Timestamp
    run_loop_id: str
    """Where it was given."""
    arguments: str | None
    """JSON; it covers calls with these alone. None: with any."""
    until: Timestamp | None
    """When it is over; None: never."""
    rule: str
    """What it covers, in words."""


class NarrowApproval(BaseModel):
    """A standing approval that is to cover less."""

    model_config = ConfigDict(extra="forbid")

    scope: str
    """As it is listed; or its id, which is needed where several have that scope."""
    narrow: NarrowRequest


class Approvals(BaseModel):
    """All of them, newest first."""

    approvals: list[Approval]


class ProblemDetails(BaseModel):
    """What every error answer holds; some hold more, such as ``run_loop_id``."""

    model_config = ConfigDict(extra="allow")

    type: str
    """``urn:rondo:`` and a stable machine-readable name."""
    title: str
    """What happened, in a few words."""
    status: int
    detail: str
    """What exactly."""
    advice: str
    """What to do about it."""
