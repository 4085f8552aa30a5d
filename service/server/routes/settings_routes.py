"""What the daemon works with: its settings, its tools, what runs without asking.

And what can be changed while it runs: whether answers are looked over, and the calibration of the
router. A daemon has one model and one calibration, of all its owners together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from fastapi import APIRouter, Query

from service.domain.routes import CalibrationInUse, CalibrationReport
from service.domain.run_loops import DEFAULT_MODEL_NAME
from service.llm.model_descriptions import disclaimer, model_in_words
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import TOKEN_NEEDED, Owner
from service.wire.daemon_bodies import (
    Approval,
    Approvals,
    AutoEnhanceSwitch,
    CalibrateRequest,
    EffectiveSettings,
    NarrowApproval,
    Tools,
)

if TYPE_CHECKING:
    from service.memory.journal.standing_approvals import StandingApproval

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/settings", tags=["settings"])
async def settings(daemon: TheDaemon) -> EffectiveSettings:
    """The settings in effect, with secrets hidden. They change when the daemon starts again."""
    current = daemon.settings
    return EffectiveSettings(
        model=model_in_words(current),
        models={
            DEFAULT_MODEL_NAME: model_in_words(current),
            **{name: model_in_words(current, current.of_model(name)) for name in current.models},
        },
        disclaimer=disclaimer(current.llm),
        settings=current.shown(),
    )


@router.get("/tools", tags=["tools"])
async def tools(daemon: TheDaemon, owner: Owner) -> Tools:
    """The tools that the assistant may call, and those that are not offered, with the reason."""
    agent = await daemon.agent()
    from service.agent.tool_listing import listed_tools  # slow, but loaded once there is an agent

    return await anyio.to_thread.run_sync(listed_tools, agent)


@router.get("/approvals", tags=["approvals"])
async def approvals(daemon: TheDaemon, owner: Owner) -> Approvals:
    """What may run without being asked for, because a person once said so."""
    standing = (await daemon.agent()).memory.journal.standing_approvals
    return Approvals(approvals=[_approval(each) for each in standing.of(owner)])


@router.delete("/approvals", tags=["approvals"])
async def revoke(
    daemon: TheDaemon,
    owner: Owner,
    scope: Annotated[str, Query(description="As it is listed, word for word; or an id.")],
) -> Approval:
    """Take a yes back: from now on it is asked for again. Of several of a scope all go."""
    standing = (await daemon.agent()).memory.journal.standing_approvals
    return _approval(await standing.revoke(scope, owner=owner))


@router.post("/approvals/narrow", tags=["approvals"])
async def narrow(request: NarrowApproval, daemon: TheDaemon, owner: Owner) -> Approvals:
    """Let a yes cover less. Gives what stands in its place: of one that is narrowed to the
    arguments of several calls, one for each."""
    from service.agent.human_input.narrowed_yes import narrow_standing  # as for `tools`

    journal = (await daemon.agent()).memory.journal
    narrower = await narrow_standing(journal, request.scope, request.narrow.narrowing, owner=owner)
    return Approvals(approvals=[_approval(each) for each in narrower])


def _approval(approval: StandingApproval) -> Approval:
    return Approval(
        id=approval.id,
        scope=approval.scope,
        tool=approval.tool,
        granted_at=approval.granted_at,
        run_loop_id=approval.run_loop_id,
        arguments=approval.arguments,
        until=approval.until,
        rule=approval.in_words,
    )


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


@router.get("/routing/calibrate", tags=["routing"], dependencies=[TOKEN_NEEDED])
async def calibration(daemon: TheDaemon) -> CalibrationInUse:
    """The calibration that counts now."""
    return await (await daemon.agent()).recalibration.in_use()


@router.post("/routing/calibrate", tags=["routing"], dependencies=[TOKEN_NEEDED])
async def calibrate(
    daemon: TheDaemon, request: CalibrateRequest | None = None
) -> CalibrationReport:
    """Fit the router's probabilities to what was corrected; nothing changes unless that is better.

    It counts from the next message on.
    """
    recalibration = (await daemon.agent()).recalibration
    if request is not None and request.reset:
        return await recalibration.reset()
    return await recalibration.calibrate()
