"""The connection to one MCP server: kept as long as the agent is at work, and begun anew when it
breaks."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp_types import Tool as ListedTool

from service.config_sections import McpServerSettings
from service.domain.errors import ConfigurationError
from service.tools.mcp.server_process import ServerProcess, stdio_streams
from service.tools.mcp.server_tool import ServerTool, definition_of, offered_name
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry

_log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.5
"""Before a server that ended is started again; the wait doubles with each failure."""
LONGEST_WAIT_SECONDS = 300.0
STEADY_SECONDS = 60.0
"""After this long a connection, the waits begin anew."""
MOST_TOOLS = 500
"""Of one server."""
_CHANGED = (
    "Its server has changed what it says of it since the daemon started. Look at it, and restart"
    " the daemon to take the new words."
)


class ServerConnection:
    """Brings the tools of one server to a registry, and withholds them while it is away."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        registry: ToolRegistry,
        *,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
    ) -> None:
        """Name the server; nothing is started.

        Args:
            name: before the names of its tools.
            settings: how it is started, and what its tools may do.
            registry: gets its tools.
            first_wait_seconds: before it is started again.
        """
        self._name = name
        self._settings = settings
        self.registry = registry
        """Gets its tools."""
        self._first_wait = first_wait_seconds
        self._client: Client | None = None
        self._tools: dict[str, ServerTool] = {}
        self._say("It is not started yet.")

    @property
    def client(self) -> Client | None:
        """Open; None while the server is away."""
        return self._client

    @property
    def absence(self) -> str:
        """Why it is away, and what happens about it."""
        return self._absence

    async def keep(self) -> None:
        """Start the server, and start it again whenever it ends, until cancelled."""
        wait = self._first_wait
        while True:
            begun = anyio.current_time()
            reason = await self._attempt()
            if anyio.current_time() - begun > STEADY_SECONDS:
                wait = self._first_wait
            self._say(f"{reason} It is started again in {wait:g} seconds.")
            _log.warning("%s", self._absence)
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    async def _attempt(self) -> str:
        """Connect, and stay connected as long as the server does; why that ended."""
        server: ServerProcess | None = None
        command = (self._settings.command, *self._settings.args)
        env = {name: value.get_secret_value() for name, value in self._settings.env.items()}
        try:
            async with stdio_streams(command, env) as (server, streams):
                with anyio.move_on_after(self._settings.start_seconds) as time:
                    client = Client(
                        _given(streams), read_timeout_seconds=self._settings.timeout_seconds
                    )
                    async with client:
                        self._take(await _listed(client))
                        self._client = client
                        self.registry.unavailable.pop(self._name, None)
                        time.deadline = float("inf")
                        try:
                            await server.ended.wait()
                        finally:
                            self._client = None
                            self._say("It ended.")
                if time.cancelled_caught:
                    return f"It was not ready within {self._settings.start_seconds:g} seconds."
        except OSError as error:
            return f"It cannot be started: {error}."
        except Exception as error:  # noqa: BLE001 - whatever a server does, the daemon goes on
            return f"{_in_words(error)}{self._last_words(server)}"
        return f"It ended.{self._last_words(server)}"

    def _take(self, listed: list[ListedTool]) -> None:
        """Offer the tools that a server has now."""
        enabled = self._settings.enabled_tools
        there = {tool.name: tool for tool in listed if not enabled or tool.name in enabled}
        for name, tool in self._tools.items():
            if name not in there:
                tool.held = "Its server does not have it any more."
        for name, told in there.items():
            offered = offered_name(self._name, name)
            known = self._tools.get(name)
            try:
                definition = definition_of(self._name, told)
                if known is None:
                    made = ServerTool(name, definition, self._settings, self)
                    self._tools[name] = self.registry.register(made)
                else:
                    known.held = None if known.definition == definition else _CHANGED
                self.registry.unavailable.pop(offered, None)
            except (ToolFailure, ConfigurationError) as error:
                words = error.detail if isinstance(error, ConfigurationError) else str(error)
                if known is None:
                    self.registry.unavailable[offered] = f"It is left out: {words}."
                else:
                    known.held = f"Its server has changed it: {words}."
        for name in set(enabled) - set(there):
            self.registry.unavailable[offered_name(self._name, name)] = (
                f"The server {self._name} has no tool {name!r}: correct"
                f" tools.mcp.{self._name}.enabled_tools."
            )

    def _say(self, reason: str) -> None:
        self._absence = f"The tool server {self._name} is away. {reason}"
        self.registry.unavailable[self._name] = self._absence

    def _last_words(self, server: ServerProcess | None) -> str:
        words = "" if server is None else server.last_words.decode("utf-8", "replace").strip()
        for value in self._settings.env.values():
            if secret := value.get_secret_value():
                words = words.replace(secret, "…")
        return f" Its last words: {words[-300:]}." if words else ""


@asynccontextmanager
async def _given(streams: TransportStreams) -> AsyncGenerator[TransportStreams]:
    yield streams


async def _listed(client: Client) -> list[ListedTool]:
    """All tools of a server, in its order; `MOST_TOOLS` at most."""
    tools: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(MOST_TOOLS):  # a page may be empty
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


def _in_words(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"It ended too early, or does not speak the protocol: {error}."
    return f"It failed: {type(error).__name__}: {error}."
