"""The settings of MCP servers: how they are reached, and what their tools may do."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from service.config_types import Names, Section
from service.domain.conversation.tool_definitions import ToolEffect

_SECRET_NAME = re.compile(r"(?i)(?:^|&)([^=&]*(?:key|token|secret|password)[^=&]*)=")


ServerApproval = Literal["always", "never"]
"""When calls of an MCP server's tool wait for a yes."""


class McpToolSettings(Section):
    """What one tool of an MCP server may do, where that differs from its server's others."""

    effect: ToolEffect | None = None
    approval: ServerApproval | None = None


class McpServerSettings(Section):
    """An MCP server whose tools are offered as ``NAME__tool``: a program, or an address."""

    command: str = ""
    """Starts it; it is spoken to over its standard streams."""
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict)
    """Variables for it, beside ``PATH``, ``HOME`` and the like; it gets none of the daemon's. A
    value can name a secret, see `headers`."""
    url: str = ""
    """Where it answers over streamable HTTP, instead of a command."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with each request. ``secret:NAME`` is a kept secret, ``env:NAME`` a variable of the
    daemon's; either alone or behind one word, as in ``Bearer secret:NAME``."""
    effect: ToolEffect = "side_effects"
    """What running one of its tools twice would do. What the server says of it does not count."""
    approval: ServerApproval = "always"
    tools: dict[str, McpToolSettings] = Field(default_factory=dict)
    """Single tools, by the server's names for them."""
    enabled_tools: Names = ()
    """By the server's names; all of them where none is named."""
    timeout_seconds: float = Field(default=60, gt=0, allow_inf_nan=False)
    """Of one call."""
    start_seconds: float = Field(default=30, gt=0, allow_inf_nan=False)
    """Until it has told its tools."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if not url:
            return url
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it is no address such as https://example.org/mcp")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a name or a password has no place in it: use headers")
        if secret := _SECRET_NAME.search(parts.query):
            raise ValueError(f"{secret[1]} has no place in it, as addresses are shown: use headers")
        return url

    @model_validator(mode="after")
    def _is_a_program_or_an_address(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("it needs either a command or a url")
        if self.url and (self.args or self.env):
            raise ValueError("args and env go with a command, not with a url")
        if self.command and self.headers:
            raise ValueError("headers go with a url, not with a command")
        return self


SERVER_NAME = r"^[a-z0-9](_?[-a-z0-9]){0,15}$"
McpServerName = Annotated[str, StringConstraints(pattern=SERVER_NAME)]
"""What an MCP server is called by: stands before the names of its tools."""
