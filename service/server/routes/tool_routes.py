"""``/v1/tools``: what the assistant can do, and what it could do if it were set up."""

from __future__ import annotations

import anyio.to_thread
from fastapi import APIRouter

from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.daemon_bodies import OfferedTool, Tools, WithheldTool

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/tools", tags=["tools"])
async def tools(daemon: TheDaemon, owner: Owner) -> Tools:
    """The tools that the assistant may call, and those that are not offered, with the reason."""
    agent = await daemon.agent()
    from service.tools.builtins import builtin_tools  # slow, but loaded once there is an agent

    offer = await anyio.to_thread.run_sync(
        builtin_tools, daemon.settings, agent.memory.long_term, agent.memory.load
    )
    withheld = await anyio.to_thread.run_sync(lambda: agent.tools.withheld)
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
            )
            for tool in offered
        ],
        not_offered=[
            WithheldTool(name=name, reason=reason)
            for name, reason in {**offer.withheld, **withheld}.items()
            if name not in names
        ],
    )
