"""The connection to one MCP server: kept as long as the agent is at work, and begun anew when it
breaks."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
from anyio import to_thread
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    ElicitRequestParams,
    ElicitResult,
    ToolListChangedNotification,
)
from mcp_types import Tool as ListedTool

from service.storage.secret_store import SecretStore
from service.tool_server_settings import McpServerSettings
from service.tools.mcp import telemetry
from service.tools.mcp.description_pins import DescriptionPins
from service.tools.mcp.pinned_tools import PinnedTools
from service.tools.mcp.secret_references import hidden, resolved
from service.tools.mcp.server_transport import ServerTransport, open_transport
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry
from service.tools.source_review import SourceChanges, SourceStatus

_log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.5
"""Before a server that ended is started again; the wait doubles with each failure."""
LONGEST_WAIT_SECONDS = 300.0
STEADY_SECONDS = 60.0
"""After this long a connection, the waits begin anew."""
CHECK_SECONDS = 60.0
"""How often a server at an address is asked for its tools: it may go, or change, without a word."""
MOST_TOOLS = 500
"""Of one server."""
_LAST_WORDS = 300  # characters that are told


class ServerConnection:
    """Brings the tools of one server to a registry, and withholds them while it is away."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        registry: ToolRegistry,
        data_dir: Path,
        *,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """Name the server; nothing is started.

        Args:
            name: before the names of its tools.
            settings: how it is reached, and what its tools may do.
            registry: gets its tools.
            data_dir: where secrets, and what its tools said, are kept.
            first_wait_seconds: before it is started again, and between two looks at its tools.
            longest_wait_seconds: before it is started again, however often it failed.
            check_seconds: how often a server at an address is asked for its tools.
        """
        self._name = name
        self._settings = settings
        self.registry = registry
        """Gets its tools."""
        self._first_wait = first_wait_seconds
        self._longest_wait = longest_wait_seconds
        self._check = check_seconds
        self._secrets = SecretStore(data_dir)
        pins = DescriptionPins(data_dir / "mcp", name, settings)
        self._tools = PinnedTools(name, settings, registry, pins, self)
        self._client: Client | None = None
        self._transport: ServerTransport | None = None
        self._values: Mapping[str, str] = {}
        self._look = anyio.Event()
        self.brought = anyio.Event()
        """Set once it was there for the first time."""
        self._say("It is not started yet.")

    @property
    def client(self) -> Client | None:
        """Open; None while the server is away."""
        return self._client

    @property
    def name(self) -> str:
        """Of the server."""
        return self._name

    @property
    def prefix(self) -> str:
        """What the names of its tools begin with."""
        return f"{self._name}__"

    @property
    def absence(self) -> str:
        """Why it is away, and what happens about it."""
        return self._absence

    @property
    def status(self) -> SourceStatus:
        """How it is now."""
        is_there = self._client is not None
        held = tuple(each.name for each in self._tools.changes.changes)
        words = self._absence
        if is_there:
            words = f"It is there, with {_tools(self._tools.offered)}."
            if held:
                words += (
                    f" {len(held)} held, as what they say is new: rondo tools review {self._name}"
                )
        return SourceStatus(
            name=self._name,
            where=self._settings.url or self._settings.command,
            is_there=is_there,
            tools=self._tools.offered if is_there else 0,
            held=held,
            words=words,
        )

    @property
    def changes(self) -> SourceChanges:
        """What waits to be looked at."""
        return self._tools.changes

    async def accept(self, digest: str) -> int:
        """Take what its tools say now; how many were held.

        Raises:
            ConflictError: they say something else than what was looked at.
            StorageError: that cannot be kept; nothing is accepted.
        """
        return await self._tools.accept(digest)

    def failed(self, error: MCPError) -> str:
        """Look whether it is still there, after a call that failed; why that was."""
        refusal = None if self._transport is None else self._transport.refusal()
        if error.code == CONNECTION_CLOSED or refusal is not None:
            self._look.set()
        return self.cleaned(f"{error} {refusal}" if refusal else str(error))

    def cleaned(self, words: str) -> str:
        """Words without the secrets that it was given."""
        return hidden(words, self._values.values())

    async def keep(self) -> None:
        """Connect, and connect again whenever that ends, until cancelled."""
        telemetry.switch_off()
        self._tools.remember()
        wait = self._first_wait
        warned: str | None = None
        while True:
            begun = anyio.current_time()
            reason = await self._attempt()
            if anyio.current_time() - begun > STEADY_SECONDS:
                wait = self._first_wait
            again = "It is asked again" if self._settings.url else "It is started again"
            self._say(f"{reason} {again} in {wait:g} seconds.")
            # The reason alone, as how long it waits grows: what stays so is warned of once.
            level = logging.DEBUG if reason == warned else logging.WARNING
            _log.log(level, "%s", self._absence)
            warned = reason
            await anyio.sleep(wait)
            wait = min(2 * wait, self._longest_wait)

    async def _attempt(self) -> str:
        """Connect, and stay connected as long as the server does; why that ended."""
        transport: ServerTransport | None = None
        written = self._settings.headers if self._settings.url else self._settings.env
        try:
            self._values = await to_thread.run_sync(resolved, written, self._secrets)
            async with open_transport(self._settings, self._values) as transport:
                if not await self._stay(transport):
                    return f"It was not ready within {self._settings.start_seconds:g} seconds."
        except ToolFailure as error:
            return f"{error}."
        except OSError as error:
            return f"It cannot be started: {error}."
        except Exception as error:  # noqa: BLE001 - whatever a server does, the daemon goes on
            return f"{_in_words(error, transport)}{_last_words(transport)}"
        return f"It ended.{_last_words(transport)}"

    async def _stay(self, transport: ServerTransport) -> bool:
        """Keep up with a server until it ends; False where it was not ready in time."""
        with anyio.move_on_after(self._settings.start_seconds) as time:
            client = Client(
                _given(transport.streams),
                read_timeout_seconds=self._settings.timeout_seconds,
                message_handler=self._notice,
                elicitation_callback=_cannot_wait,
            )
            async with client:
                await self._tools.take(await _listed(client))
                self._client, self._transport = client, transport
                self.brought.set()
                self.registry.unavailable.pop(self._name, None)
                time.deadline = float("inf")
                try:
                    await self._follow(client, transport)
                finally:
                    self._client = None
                    self._say("It ended.")
        return not time.cancelled_caught

    async def _follow(self, client: Client, transport: ServerTransport) -> None:
        """Look at the tools again whenever something hints that they are others."""
        async with anyio.create_task_group() as group:

            async def end() -> None:
                await transport.ended.wait()
                group.cancel_scope.cancel()

            group.start_soon(end)
            group.start_soon(self._listen, client)
            while True:
                with anyio.move_on_after(self._check if self._settings.url else float("inf")):
                    await self._look.wait()
                self._look = anyio.Event()
                await self._tools.take(await _listed(client))
                await anyio.sleep(self._first_wait)  # however often a server says that they changed

    async def _listen(self, client: Client) -> None:
        """Be told when the tools change, by servers that keep no session."""
        offered = client.server_capabilities.tools
        while offered is not None and offered.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._look.set()  # what changed before is not told
                    async for _ in changes:
                        self._look.set()
            except ListenNotSupportedError:
                return  # it tells by `_notice`
            except (MCPError, SubscriptionLost, TimeoutError):
                self._look.set()
            await anyio.sleep(self._check)

    async def _notice(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._look.set()

    def _say(self, reason: str) -> None:
        self._absence = self.cleaned(f"The tool server {self._name} is away. {reason}")
        self.registry.unavailable[self._name] = self._absence


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


async def _cannot_wait(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """To ask is offered to servers that keep nothing meanwhile, see `elicitation`; one that keeps
    a session would wait within the call, for days if need be."""
    return ElicitResult(action="cancel")


def _tools(number: int) -> str:
    return "1 tool" if number == 1 else f"{number} tools"


def _last_words(transport: ServerTransport | None) -> str:
    words = "" if transport is None else transport.last_words()
    return f" Its last words: {words[-_LAST_WORDS:]}." if words else ""


def _in_words(error: BaseException, transport: ServerTransport | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if transport is not None and (refusal := transport.refusal()):
        return refusal
    if isinstance(error, httpx2.TimeoutException):
        return "It does not answer in time."
    if isinstance(error, httpx2.HTTPError):
        return f"It cannot be reached: {error or type(error).__name__}."
    if isinstance(error, MCPError):
        return f"It ended too early, or does not speak the protocol: {error}."
    return f"It failed: {type(error).__name__}: {error}."
