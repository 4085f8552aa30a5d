"""``/v1/run-loops``: what a person has asked for, what can be done to it, a person's answer to one
that waits (``/input``), and moving a message to the run loop where it belongs (``/reroute``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from fastapi import APIRouter, Query
from pydantic import JsonValue

from service.domain.history.human_input import CallDecision
from service.domain.run_loops import ACTIVE, DEFAULT_MODEL_NAME, RunLoop, Status
from service.domain.usage import LoopUsage
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.route_explanations import answers_among, decided_routes, lines_of
from service.server.security.bearer_auth import Owner
from service.wire.run_loop_bodies import (
    CompactedLoop,
    Fork,
    ForkRequest,
    InputAnswer,
    Rerouted,
    RerouteRequest,
    RunLoopDetails,
    RunLoopPage,
    YesRule,
    YesRules,
)
from service.wire.time_parameters import Moment

if TYPE_CHECKING:
    from service.agent.human_input.answer_reading import Answer

router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


@router.get("")
async def list_run_loops(
    daemon: TheDaemon,
    owner: Owner,
    *,
    status: Annotated[
        list[Status | Literal["active"]] | None,
        Query(description="Only these; `active` stands for the three that can be joined."),
    ] = None,
    since: Annotated[Moment | None, Query(description="Opened then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Opened before then.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    why: Annotated[
        bool, Query(description="Tell of each why its newest message is there, too.")
    ] = False,
    before: Annotated[
        str | None, Query(description="Go on after this run loop: `next_before` of the last page.")
    ] = None,
) -> RunLoopPage:
    """The run loops, newest first, without their words."""
    journal = (await daemon.agent()).memory.journal
    if before is not None:
        # Not found rather than an empty page.
        await journal.run_loops.check_owner(before, owner=owner)
    summaries = await journal.run_loops.summaries(
        owner=owner,
        statuses=_statuses(status),
        since=since,
        until=until,
        before_id=before,
        limit=limit + 1,
    )
    page = await lines_of(journal, summaries[:limit], why=why)
    return RunLoopPage(run_loops=page, next_before=page[-1].id if len(summaries) > limit else None)


@router.post("/{run_loop_id:path}/cancel")
async def cancel(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Stop a run loop. Answers once its work has really ended."""
    return await (await daemon.agent()).cancel(run_loop_id, owner=owner)


@router.post("/{run_loop_id:path}/complete")
async def complete(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Declare a run loop done, so that it goes to long-term memory."""
    return await (await daemon.agent()).complete(run_loop_id, owner=owner)


@router.post("/{run_loop_id:path}/resume")
async def resume(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Take up a run loop that was cancelled or has failed, where it ended."""
    return await (await daemon.agent()).resume(run_loop_id, owner=owner)


@router.post("/{run_loop_id:path}/compact")
async def compact(run_loop_id: str, daemon: TheDaemon, owner: Owner) -> CompactedLoop:
    """Summarise the old rounds of a run loop now; one at work does it before its next step.

    Answers once it is done. Whoever goes away before cancels nothing.
    """
    done = await (await daemon.agent()).compact(run_loop_id, owner=owner)
    return CompactedLoop(
        run_loop_id=run_loop_id,
        messages=done.messages,
        method=done.method,
        tokens_before=done.tokens_before,
        tokens_after=done.tokens_after,
    )


@router.post("/{run_loop_id:path}/fork", status_code=201)
async def fork(
    run_loop_id: str, daemon: TheDaemon, owner: Owner, request: ForkRequest | None = None
) -> Fork:
    """Open a run loop with the same history up to an event; the first one is left as it is."""
    agent = await daemon.agent()
    at = None if request is None else request.at
    forked = await agent.fork(run_loop_id, at=at, owner=owner)
    # Read at once: as soon as we wait for anything, the fork goes on.
    state = agent.memory.short_term.state(forked.id)
    return Fork(
        **dict(forked),
        forked_from=state.forked_from if state else None,
        last_seq=state.last_seq if state else 0,
    )


# Last of all: an id may hold a slash, and so this would take the addresses above as ids.
details_router = APIRouter(prefix="/v1/run-loops", tags=["run loops"], route_class=JSONRoute)


@details_router.get("/{run_loop_id:path}")
async def show(
    run_loop_id: str,
    daemon: TheDaemon,
    owner: Owner,
    at: Annotated[
        int | None, Query(ge=1, lt=2**63, description="As it was right after this event.")
    ] = None,
) -> RunLoopDetails:
    """A run loop, whole, and why each message came to it; as it is, or as it was."""
    agent = await daemon.agent()
    state = await agent.replay(run_loop_id, at=at, owner=owner)
    routes = await decided_routes(agent.memory.journal, run_loop_id, until=state.last_seq)
    for answer in answers_among(routes, state):
        places = answer.route.alternatives
        if state.before_answer is None or answer.message_id != state.before_answer.message_id:
            places = ()
        possible = await agent.possible_moves(run_loop_id, answer.message_id, places, owner=owner)
        answer.route = answer.route.model_copy(update={"alternatives": possible})
    return RunLoopDetails(
        **dict(state.run_loop()),
        updated_at=state.updated_at,
        last_seq=state.last_seq,
        forked_from=state.forked_from,
        routes=routes,
        input_required=state.awaiting,
        problem=state.problem,
        usage=LoopUsage.of(state, agent.options.prices),
        model=state.next_model or DEFAULT_MODEL_NAME,
    )


def _statuses(asked: list[Status | Literal["active"]] | None) -> frozenset[Status] | None:
    if asked is None:
        return None
    selected: set[Status] = set()
    for status in asked:
        selected |= ACTIVE if status == "active" else {status}
    return None if selected == set(get_args(Status)) else frozenset(selected)


@router.post("/{run_loop_id:path}/input")
async def answer(run_loop_id: str, answer: InputAnswer, daemon: TheDaemon, owner: Owner) -> RunLoop:
    """Answer a run loop that waits for a person. Anything but ``"approved": true`` is a no.

    Gives the run loop that goes on with it: another one only where the router had asked where a
    message belongs, and it belongs there.
    """
    agent = await daemon.agent()
    goes_on = await agent.engine.answers.answer(run_loop_id, _as_said(answer), owner)
    return await agent.run_loop(goes_on, owner=owner)


@router.post("/{run_loop_id:path}/input/rules")
async def rules(run_loop_id: str, answer: InputAnswer, daemon: TheDaemon, owner: Owner) -> YesRules:
    """What an answer would allow for longer, before it counts: nothing is decided by this."""
    agent = await daemon.agent()
    given = await agent.engine.answers.rules(run_loop_id, _as_said(answer), owner)
    return YesRules(
        rules=[
            YesRule(
                scope=each.scope,
                tool=each.tool,
                arguments=each.arguments,
                until=each.until,
                rule=each.in_words,
            )
            for each in given
        ]
    )


def _as_said(answer: InputAnswer) -> Answer:
    from service.agent.human_input.answer_reading import Answer  # loaded once there is an agent

    return Answer(
        approved=answer.approved,
        text=answer.text,
        choices=None if answer.choices is None else tuple(answer.choices),
        decisions=tuple(
            CallDecision(
                call_id=call_id,
                approved=each.approved,
                reason=each.text,
                arguments=_written(each.arguments),
            )
            for call_id, each in answer.calls.items()
        ),
        arguments=_written(answer.arguments),
        remember=answer.remember,
        narrow=None if answer.narrow is None else answer.narrow.narrowing,
        request_id=answer.request_id,
    )


def _written(arguments: dict[str, JsonValue] | None) -> str | None:
    return None if arguments is None else json.dumps(arguments, ensure_ascii=False)


@router.post("/{run_loop_id:path}/reroute")
async def reroute(
    run_loop_id: str, daemon: TheDaemon, owner: Owner, request: RerouteRequest
) -> Rerouted:
    """Move a message, and what followed from it, to the run loop where it belongs; or back."""
    agent = await daemon.agent()
    if request.undo:
        moved = await agent.undo_reroute(run_loop_id, message_id=request.message_id, owner=owner)
    else:
        moved = await agent.reroute(
            run_loop_id, message_id=request.message_id, to=request.to, owner=owner
        )
    return Rerouted(
        moved=list(moved.message_ids),
        from_run_loop_id=moved.from_run_loop_id,
        to=moved.to_run_loop_id,
        run_loop=moved.run_loop,
    )
