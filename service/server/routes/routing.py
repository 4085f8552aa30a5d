"""``/v1/routing/calibrate``: the router, calibrated by what a person has corrected."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from service.domain.calibration import CalibrationInUse, CalibrationReport
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

router = APIRouter(prefix="/v1/routing", tags=["routing"], route_class=JSONRoute)


class CalibrateRequest(BaseModel):
    """What is wanted."""

    model_config = ConfigDict(extra="forbid")

    reset: bool = False
    """Let the trained model's own probabilities count again, instead of fitting anew."""


@router.get("/calibrate")
async def in_use(daemon: TheDaemon, owner: Owner) -> CalibrationInUse:
    """The calibration that counts now."""
    return await (await daemon.agent()).recalibration.in_use()


@router.post("/calibrate")
async def calibrate(
    daemon: TheDaemon, owner: Owner, request: CalibrateRequest | None = None
) -> CalibrationReport:
    """Fit the router's probabilities to what was corrected; nothing changes unless that is better.

    It counts from the next message on.
    """
    recalibration = (await daemon.agent()).recalibration
    if request is not None and request.reset:
        return await recalibration.reset()
    return await recalibration.calibrate()
