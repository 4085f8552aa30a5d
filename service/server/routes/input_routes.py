"""``POST /v1/run-loops/{id}/input``: a person's answer to a run loop that waits for one."""

from __future__ import annotations

import json

from fastapi import APIRouter
from pydantic import JsonValue

from service.domain.history.human_input import CallDecision
from service.domain.run_loops import RunLoop
from service.server.daemon import TheDaemon
from service.server.http.json_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.wire.run_loop_bodies import InputAnswer

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


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
