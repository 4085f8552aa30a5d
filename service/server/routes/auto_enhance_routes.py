"""``/v1/auto-enhance``: whether the model looks over its answers to a person once more."""

from __future__ import annotations

from fastapi import APIRouter

from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.daemon_bodies import AutoEnhanceSwitch

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/auto-enhance", tags=["run loops"])
async def auto_enhance(daemon: TheDaemon, owner: Owner) -> AutoEnhanceSwitch:
    """Whether answers are looked over now."""
    return AutoEnhanceSwitch(enabled=(await daemon.agent()).auto_enhance(owner=owner))


@router.post("/auto-enhance", tags=["run loops"])
async def switch_auto_enhance(
    request: AutoEnhanceSwitch, daemon: TheDaemon, owner: Owner
) -> AutoEnhanceSwitch:
    """Have answers looked over, or not: from the next one on, in run loops at work too."""
    agent = await daemon.agent()
    agent.switch_auto_enhance(on=request.enabled, owner=owner)
    return AutoEnhanceSwitch(enabled=agent.auto_enhance(owner=owner))
