"""The tools of one server in a registry: those that say what a person has accepted."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from anyio import to_thread
from mcp_types import Tool as ListedTool

from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import ConfigurationError, ConflictError, StorageError
from service.tool_server_settings import McpServerSettings
from service.tools.mcp.description_pins import DescriptionPins, digest_of
from service.tools.mcp.server_tool import Connection, ServerTool, definition_of, offered_name
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry
from service.tools.source_review import SourceChanges, ToolChange

_log = logging.getLogger(__name__)


class PinnedTools:
    """Brings the tools of one server to a registry, and holds back those that have changed."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        registry: ToolRegistry,
        pins: DescriptionPins,
        connection: Connection,
    ) -> None:
        """Name the server; nothing is offered yet.

        Args:
            name: before the names of its tools.
            settings: what its tools may do.
            registry: gets them.
            pins: what they said when they were accepted.
            connection: the way to them.
        """
        self._name = name
        self._settings = settings
        self._registry = registry
        self._pins = pins
        self._connection = connection
        self._pinned: dict[str, ToolDefinition] | None = None
        self._trouble = ""  # with the pins, in a sentence
        self._told: dict[str, ToolDefinition] = {}
        self._left_out: dict[str, str] = {}
        self._tools: dict[str, ServerTool] = {}
        self._said: frozenset[str] = frozenset()  # which are held, in the log

    @property
    def offered(self) -> int:
        """How many tools the model may call while the server is there."""
        return sum(tool.held is None for tool in self._tools.values())

    @property
    def changes(self) -> SourceChanges:
        """What waits to be looked at."""
        waiting = self._waiting()
        pinned = self._pinned or {}
        return SourceChanges(
            tuple(
                ToolChange(
                    name=after.name,
                    kind="changed" if name in pinned else "new",
                    before=pinned.get(name),
                    after=after,
                )
                for name, after in waiting.items()
            ),
            digest_of(waiting),
        )

    def remember(self) -> None:
        """Have the tools that were accepted before, though the server is not there yet. Blocks for
        as long as a small file takes: a run loop that goes on with a call must find its tool."""
        try:
            self._pinned = self._pins.read()
        except StorageError as error:
            self._pinned = {}
            self._trouble = f"What was accepted of it is lost: {error.detail}."
        for name in sorted(self._pinned or {}):
            if self._is_enabled(name):
                self._offer_one(name, None)

    async def take(self, listed: Sequence[ListedTool]) -> None:
        """Offer what a server has now. What it says the first time is pinned."""
        self._told, self._left_out = {}, {}
        for each in listed:
            try:
                self._told[each.name] = definition_of(self._name, each)
            except ToolFailure as error:
                self._left_out[each.name] = f"It is left out: {error}."
        if self._pinned is None and self._told:
            await self._pin_all()
        self._offer()
        held = frozenset(self._waiting())
        if held - self._said:
            names = ", ".join(sorted(offered_name(self._name, name) for name in held))
            _log.warning(
                "Tools of the server %s say something new, and are held: %s."
                " Look at them: rondo tools review %s",
                self._name,
                names,
                self._name,
            )
        self._said = held

    async def accept(self, digest: str) -> int:
        """Take what the server says now; how many tools were held.

        Raises:
            ConflictError: it says something else than what was looked at.
            StorageError: that cannot be kept; nothing is accepted.
        """
        waiting = self._waiting()
        if digest != digest_of(waiting):
            raise ConflictError(
                f"the tools of {self._name} say something else than what was looked at",
                advice=f"Look again: rondo tools review {self._name}",
            )
        accepted = {**(self._pinned or {}), **waiting}
        await to_thread.run_sync(self._pins.write, accepted)
        self._pinned, self._trouble = accepted, ""
        self._offer()
        return len(waiting)

    async def _pin_all(self) -> None:
        try:
            await to_thread.run_sync(self._pins.write, self._told)
        except StorageError as error:  # tried again at the next look
            self._trouble = f"What it says cannot be kept: {error.detail}. {error.advice}"
        else:
            self._pinned, self._trouble = dict(self._told), ""

    def _waiting(self) -> Mapping[str, ToolDefinition]:
        pinned = self._pinned or {}
        return {
            name: told
            for name, told in sorted(self._told.items())
            if self._is_enabled(name) and pinned.get(name) != told
        }

    def _is_enabled(self, name: str) -> bool:
        return not self._settings.enabled_tools or name in self._settings.enabled_tools

    def _offer(self) -> None:
        for name in sorted({*self._tools, *self._told, *self._left_out}):
            if self._is_enabled(name):
                self._offer_one(name, self._reason(name))
        for name in set(self._settings.enabled_tools) - {*self._told, *self._left_out}:
            self._registry.unavailable[offered_name(self._name, name)] = (
                f"The server {self._name} has no tool {name!r}: correct"
                f" tools.mcp.{self._name}.enabled_tools."
            )

    def _offer_one(self, name: str, reason: str | None) -> None:
        offered, tool = offered_name(self._name, name), self._tools.get(name)
        definition = (self._pinned or {}).get(name)
        if tool is None and reason is None and definition is not None:
            tool = ServerTool(name, definition, self._settings, self._connection)
            try:
                self._tools[name] = self._registry.bring(tool)
            except ConfigurationError as error:
                reason = f"It is left out: {error.detail}"
                tool = None
        if tool is None:
            self._registry.unavailable[offered] = reason or ""
            return
        self._registry.unavailable.pop(offered, None)
        tool.held = reason
        if reason is None and definition is not None:
            tool.definition = definition

    def _reason(self, name: str) -> str | None:
        """Why a tool is not offered; None where it is."""
        review = f"Look at it: rondo tools review {self._name}"
        if name in self._left_out:
            return self._left_out[name]
        if name not in self._told:
            return "Its server does not have it any more."
        if self._trouble:
            return f"{self._trouble} {review}"
        if name not in (self._pinned or {}):
            return f"It is new: its server did not have it when you took its tools. {review}"
        if name in self._waiting():
            return f"Its server has changed what it says of it. {review}"
        return None
