"""The tools of an agent as people see them."""

from __future__ import annotations

from service.agent.agent import Agent
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import NotFoundError
from service.tools.source_review import ReviewedSource
from service.wire.daemon_bodies import (
    OfferedTool,
    Tools,
    ToolServer,
    ToolServerChange,
    ToolServerChanges,
    ToolWords,
    WithheldTool,
)


def listed_tools(agent: Agent) -> Tools:
    """The tools that the model may call now, and those that it may not, with the reason. Blocks."""
    withheld = {**agent.tools.unavailable, **agent.tools.withheld}
    names = [name for name in agent.tools.names if name not in withheld]
    offered = [tool for name in names if (tool := agent.tools.get(name)) is not None]
    return Tools(
        tools=[
            OfferedTool(
                name=tool.definition.name,
                description=tool.definition.description,
                parameters=tool.definition.parameters,
                effect=tool.effect,
                needs_approval=agent.options.approval.asks_for(tool),
                timeout_seconds=tool.timeout_seconds,
            )
            for tool in offered
        ],
        not_offered=[
            WithheldTool(name=name, reason=reason)
            for name, reason in withheld.items()
            if name not in names
        ],
        servers=[_server(source) for source in _reviewed(agent)],
    )


def tool_server(agent: Agent, name: str) -> ReviewedSource:
    """The MCP server of this name.

    Raises:
        NotFoundError: the settings have none.
    """
    sources = {source.status.name: source for source in _reviewed(agent)}
    if name not in sources:
        raise NotFoundError(
            f"the settings name no tool server {name!r}",
            advice=f"They name {', '.join(sources) or 'none'}: see [tools.mcp].",
        )
    return sources[name]


def server_changes(source: ReviewedSource) -> ToolServerChanges:
    """What of a server waits to be looked at."""
    waiting = source.changes
    return ToolServerChanges(
        server=source.status.name,
        changes=[
            ToolServerChange(
                name=each.name,
                kind=each.kind,
                before=None if each.before is None else _words(each.before),
                after=_words(each.after),
            )
            for each in waiting.changes
        ],
        digest=waiting.digest,
    )


def _reviewed(agent: Agent) -> list[ReviewedSource]:
    return [source for source in agent.tools.sources if isinstance(source, ReviewedSource)]


def _server(source: ReviewedSource) -> ToolServer:
    status = source.status
    return ToolServer(
        name=status.name,
        where=status.where,
        is_there=status.is_there,
        tools=status.tools,
        held=list(status.held),
        words=status.words,
    )


def _words(definition: ToolDefinition) -> ToolWords:
    return ToolWords(description=definition.description, parameters=definition.parameters)
