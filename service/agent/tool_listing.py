"""The tools of an agent as people see them."""

from __future__ import annotations

from service.agent.agent import Agent
from service.wire.daemon_bodies import OfferedTool, Tools, WithheldTool


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
    )
