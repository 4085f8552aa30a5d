"""The way to a server, whichever it is: a process, or an address."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from mcp.client._transport import TransportStreams

from service.tool_server_settings import McpServerSettings
from service.tools.mcp.server_http import http_streams
from service.tools.mcp.server_process import stdio_streams


@dataclass(frozen=True, slots=True)
class ServerTransport:
    """An open way to a server."""

    streams: TransportStreams
    ended: anyio.Event
    """Set when its process has ended; never for an address."""
    last_words: Callable[[], str]
    """What it wrote last beside its messages; empty where there is nothing."""
    refusal: Callable[[], str | None]
    """What it answered last instead of doing what it was asked, in a sentence."""


@asynccontextmanager
async def open_transport(
    settings: McpServerSettings, values: Mapping[str, str]
) -> AsyncGenerator[ServerTransport]:
    """Start a server's program, or begin to talk to its address.

    Args:
        settings: which.
        values: of its variables or its headers, as they are meant.

    Raises:
        OSError: its program cannot be started.
        httpx2.HTTPError: its address cannot be reached any more, also later.
    """
    if settings.url:
        async with http_streams(settings.url, values, timeout_seconds=settings.timeout_seconds) as (
            answers,
            streams,
        ):
            yield ServerTransport(streams, anyio.Event(), lambda: "", lambda: answers.refusal)
        return
    async with stdio_streams((settings.command, *settings.args), values) as (server, streams):
        yield ServerTransport(
            streams,
            server.ended,
            lambda: server.last_words.decode("utf-8", "replace").strip(),
            lambda: None,
        )
