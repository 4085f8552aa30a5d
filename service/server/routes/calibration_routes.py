"""``/v1/routing/calibrate``: the router, calibrated by what persons have corrected.

A daemon has one model and one calibration, of all its owners together.
"""

from __future__ import annotations

from fastapi import APIRouter

from service.domain.routes import CalibrationInUse, CalibrationReport
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import TOKEN_NEEDED
from service.wire.daemon_bodies import CalibrateRequest

router = APIRouter(prefix="/v1", route_class=JSONRoute)


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
