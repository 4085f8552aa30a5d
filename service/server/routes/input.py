"""``POST /v1/run-loops/{id}/input``: a person's answer to a run loop that waits for one."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.domain.events import CallDecision, Remember
from service.domain.run_loops import RunLoop
from service.server.auth import Owner
from service.server.daemon import TheDaemon
from service.server.json_body import JSONRoute

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)

YesOrNo = Annotated[bool | None, Field(strict=True)]


class CallAnswer(BaseModel):
    """What is decided about one of the calls that wait."""

    model_config = ConfigDict(extra="forbid")

    approved: YesOrNo = None
    """As for the request as a whole, when it is not given."""
    text: str | None = None
    """For a no, its reason."""
    arguments: dict[str, JsonValue] | None = None
    """What to run the call with, instead of what the model wrote. With a yes."""


class InputAnswer(BaseModel):
    """A person's answer to a run loop that waits for one."""

    model_config = ConfigDict(extra="forbid")

    approved: YesOrNo = None
    """For a question of the kind ``approve``: whether the calls may run."""
    text: str | None = None
    """The answer in words; for a no, its reason. Not with a yes: the words may say otherwise."""
    choices: list[str] | None = None
    """For ``select``: what is chosen, word for word as in the options."""
    remember: Remember | None = None
    """How long a yes holds: for this run loop, or for good; see ``/v1/approvals``."""
    calls: dict[str, CallAnswer] = Field(default_factory=dict)
    """By the id of a call: what differs from the rest."""
    arguments: dict[str, JsonValue] | None = None
    """When one call waits: what to run it with."""
    request_id: str | None = None
    """Which question is answered; needed where the run loop has asked more than one. With it, an
    answer can be sent again: it counts once."""


@router.post("/{run_loop_id:path}/input")
async def answer(run_loop_id: str, answer: InputAnswer, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Answer a run loop that waits for a person. Anything but ``"approved": true`` is a no.

    Gives the run loop that goes on with it: another one only where the router had asked where a
    message belongs, and it belongs there.
    """
    agent = await daemon.agent()
    goes_on = await agent.answer(
        run_loop_id,
        approved=answer.approved,
        text=answer.text,
        choices=answer.choices,
        decisions=[
            CallDecision(
                call_id=call_id,
                approved=each.approved,
                reason=each.text,
                arguments=_written(each.arguments),
            )
            for call_id, each in answer.calls.items()
        ],
        arguments=_written(answer.arguments),
        remember=answer.remember,
        request_id=answer.request_id,
        owner=owner,
    )
    return await agent.run_loop(goes_on, owner=owner)


def _written(arguments: dict[str, JsonValue] | None) -> str | None:
    return None if arguments is None else json.dumps(arguments, ensure_ascii=False)
