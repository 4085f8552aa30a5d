"""MCP servers of the settings: what their tools say that is new, and a yes to it."""

from __future__ import annotations

from fastapi import APIRouter

from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import TOKEN_NEEDED
from service.wire.daemon_bodies import AcceptChanges, AcceptedChanges, ToolServerChanges

router = APIRouter(
    prefix="/v1/tools/servers", route_class=JSONRoute, tags=["tools"], dependencies=[TOKEN_NEEDED]
)


@router.get("/{name}/changes")
async def changes(name: str, daemon: TheDaemon) -> ToolServerChanges:
    """Tools that say something else than what was accepted, and are held for that."""
    agent = await daemon.agent()
    from service.agent.tool_listing import server_changes, tool_server  # slow

    return server_changes(tool_server(agent, name))


@router.post("/{name}/accept")
async def accept(name: str, request: AcceptChanges, daemon: TheDaemon) -> AcceptedChanges:
    """Have the model told what was looked at. Where the server says something else by now, 409."""
    agent = await daemon.agent()
    from service.agent.tool_listing import tool_server  # slow

    return AcceptedChanges(accepted=await tool_server(agent, name).accept(request.digest))
