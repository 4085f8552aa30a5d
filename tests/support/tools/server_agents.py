"""Agents with the tools of an MCP server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from service.agent.agent import Agent
from service.agent.agent_factory import agent_from_settings
from service.agent.tool_listing import listed_tools
from service.config import EmbedderSettings, Settings, ToolsSettings
from tests.support.agent.agents import FunctionLLM
from tests.support.tools.connections import HttpClock, until


@asynccontextmanager
async def agent_of(
    server: HttpClock, folder: Path, llm: FunctionLLM, *, is_there: bool = True
) -> AsyncGenerator[Agent]:
    """An agent with the tools of a server."""
    mcp = {"clock": {"url": server.at().url, "approval": "never"}}
    settings = Settings(
        data_dir=folder,
        embedder=EmbedderSettings(kind="none"),
        tools=ToolsSettings.model_validate({"mcp": mcp, "entry_points": False}),
    )
    async with agent_from_settings(settings, llm=llm) as agent:
        if is_there:
            await until(lambda: listed_tools(agent).servers[0].is_there)
        yield agent
