"""``/v1/memory/forget``: forgetting, with a preview first and a receipt after."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.domain.anchors import AnchorRef
from service.domain.forgetting_terms import (
    ForgetConflictError,
    ForgetPreview,
    ForgetReceipt,
    ForgetRequest,
)
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.problems import problem_response
from service.server.security.bearer_auth import Owner
from service.wire.forgetting_bodies import ForgetBody, ForgetProblem, ForgetReceipts

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


@router.post(
    "/forget",
    response_model=ForgetPreview | ForgetReceipt,
    responses={409: {"model": ForgetProblem, "description": "It is not as it was previewed"}},
)
async def forget(
    body: ForgetBody, daemon: TheDaemon, owner: Owner
) -> ForgetPreview | ForgetReceipt | Response:
    """Without `confirm`: show what would be forgotten. With it: forget just that, for good.

    A receipt whose `pending` is not empty is finished in the background; ask for it again.
    """
    agent = await daemon.agent()
    request = ForgetRequest(
        run_loop_ids=tuple(body.run_loop_ids),
        anchors=tuple(map(AnchorRef.parse, body.anchors)),
        since=body.since,
        until=body.until,
        query=body.query,
        limit=body.limit,
        exact=body.exact,
        everything=body.all,
        with_answers=body.with_answers,
        with_all_that_saw=body.with_all_that_saw,
        stop=body.stop,
    )
    if body.confirm is None:
        return await agent.preview_forgetting(request, owner=owner)
    try:
        return await agent.forget(request, body.confirm, owner=owner)
    except ForgetConflictError as error:
        preview = error.preview.model_dump(mode="json")
        return problem_response(error.problem(), preview=preview)


@router.get("/forget/receipts")
async def receipts(
    daemon: TheDaemon, owner: Owner, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> ForgetReceipts:
    """What has been forgotten so far, newest first."""
    forgetting = (await daemon.agent()).memory.forgetting
    return ForgetReceipts(receipts=await forgetting.receipts(owner=owner, limit=limit))
