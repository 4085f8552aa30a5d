"""``/v1/memory/forget``: forgetting, with a preview first and a receipt after."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from service.domain.anchors import AnchorRef
from service.domain.forgetting import (
    ForgetConflictError,
    ForgetPreview,
    ForgetReceipt,
    ForgetRequest,
)
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute
from service.server.problems import ProblemDetails, problem_response
from service.server.routes.moments import Moment

router = APIRouter(prefix="/v1/memory/forget", tags=["memory"], route_class=JSONRoute)

_MOST_NAMED = 10_000


class ForgetBody(BaseModel):
    """What is to be forgotten; without `confirm`, it is only shown."""

    model_config = ConfigDict(extra="forbid")

    run_loop_ids: list[str] = Field(default=[], max_length=_MOST_NAMED)
    """Whole run loops; with a time, what they hold of it."""
    anchors: list[str] = Field(default=[], max_length=_MOST_NAMED)
    """RUN_LOOP_ID:ITERATION.SEGMENT; each forgets the iteration that it stands in."""
    since: Moment | None = None
    """Only from then on; with nothing else, all from then on."""
    until: Moment | None = None
    """Only from before then; with nothing else, all from before then."""
    query: str | None = Field(default=None, max_length=10_000)
    """What a search finds, each hit with its iteration."""
    limit: int = Field(default=8, ge=1, le=100)
    """At most so many hits."""
    exact: bool = False
    """Instead of searching: every iteration that holds the words of `query` just so."""
    all: bool = False
    """Everything that you have ever said and done here."""
    stop: bool = False
    """Cancel run loops that are active, and then forget them."""
    confirm: str | None = Field(default=None, max_length=100)
    """The code of a preview of the same request: forget what it showed. Left out: show it. Null is
    refused: it is what a preview says that cannot be confirmed."""

    @field_validator("confirm", mode="before")
    @classmethod
    def _is_a_code(cls, given: object) -> object:
        if given is None:  # only where it was given: the default is not looked at
            raise ValueError(
                "null is no code, and nothing was forgotten: the preview could not be confirmed;"
                " its `notice` says why. Leave `confirm` out for a preview"
            )
        return given


class ForgetReceipts(BaseModel):
    """What has been forgotten, newest first; none of the words."""

    receipts: list[ForgetReceipt]


class ForgetProblem(ProblemDetails):
    """Why nothing was forgotten, and how it stands now."""

    preview: ForgetPreview


@router.post(
    "",
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
        stop=body.stop,
    )
    if body.confirm is None:
        return await agent.preview_forgetting(request, owner=owner)
    try:
        return await agent.forget(request, body.confirm, owner=owner)
    except ForgetConflictError as error:
        preview = error.preview.model_dump(mode="json")
        return problem_response(error.problem(), preview=preview)


@router.get("/receipts")
async def receipts(
    daemon: TheDaemon, owner: Owner, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> ForgetReceipts:
    """What has been forgotten so far, newest first."""
    forgetting = (await daemon.agent()).memory.forgetting
    return ForgetReceipts(receipts=await forgetting.receipts(owner=owner, limit=limit))
