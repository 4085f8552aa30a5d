"""What a yes that is remembered comes to, and how one that stands is made narrower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from service.agent.human_input.answer_reading import decisions_of
from service.domain.conversation.messages import ToolCall
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.history.approval_rules import Narrowing, exact_arguments, in_milliseconds
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.memory.journal.protocol import Journal
from service.memory.journal.standing_approvals import StandingApproval, one_of


def granted(
    state: RunLoopState, received: InputReceived, allowed: Iterable[tuple[ToolCall, str]]
) -> tuple[StandingApproval, ...]:
    """What a yes that is remembered covers from now on.

    Args:
        state: of the loop that has asked.
        received: the yes.
        allowed: the calls as they are to run, each with its scope.

    Raises:
        InvalidInputError: it is narrowed to a time that is over, or to arguments that cannot be
            told apart.
    """
    narrow = received.narrow or Narrowing()
    now = in_milliseconds(datetime.now(UTC))
    until = _in_future(narrow.until, now)
    given = {
        (scope, arguments): StandingApproval(
            state.owner, scope, call.name, now, state.id, arguments, until
        )
        for call, scope in allowed
        for arguments in [_exact(call) if narrow.arguments else None]
    }
    return tuple(given.values())


def as_journaled(given: Sequence[StandingApproval]) -> dict[str, Any]:
    """The fields of `InputReceived` that tell what a yes covers."""
    return {
        "scopes": tuple(each.scope for each in given if not each.is_narrowed),
        "rules": tuple(each.rule for each in given if each.is_narrowed),
    }


async def narrow_standing(
    journal: Journal, scope: str, narrow: Narrowing, *, owner: str
) -> tuple[StandingApproval, ...]:
    """Make a standing approval narrower; what stands in its place.

    Arguments are those of the calls by the yes to which it was given.

    Args:
        journal: where that yes is.
        scope: of the approval; or its id, which is needed where several have its scope.
        narrow: by what it is to be narrower.
        owner: whose it is.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: it would be no narrower, or which one is meant is not clear.
        ConflictError: the calls by which it was given are not there any more.
        StorageError: the disk refuses; it stands as it was.
    """
    if narrow.is_none:
        raise InvalidInputError(
            "nothing is narrowed", advice="Give the arguments, a time until when, or both."
        )
    approval = one_of(journal.standing_approvals.of(owner), scope)
    until = _in_future(narrow.until, datetime.now(UTC))
    exact: Sequence[str | None] = [None]
    if narrow.arguments and approval.arguments is None:
        exact = await _arguments_of(journal, approval)
    narrower: list[StandingApproval] = []

    def narrowed(standing: StandingApproval) -> Sequence[StandingApproval]:
        narrower[:] = [standing.narrowed(arguments=each, until=until) for each in exact]
        return narrower

    await journal.standing_approvals.narrow(approval, narrowed)
    return tuple(narrower)


async def _arguments_of(journal: Journal, approval: StandingApproval) -> list[str]:
    """With what the calls ran by the yes to which an approval was given."""
    exact: list[str] = []
    requests: dict[str, InputRequired] = {}
    for event in await journal.read(run_loop_id=approval.run_loop_id):
        match event.body:
            case InputRequired() as request:
                requests[request.request_id] = request
            case InputReceived(remember="always") as received if received.request_id in requests:
                scopes = (*received.scopes, *(rule.scope for rule in received.rules))
                if approval.scope not in scopes:
                    continue
                exact = [  # of the newest such yes
                    _exact(call)
                    for call, decision in decisions_of(requests[received.request_id], received)
                    if decision.approved
                    and call.name == approval.tool
                    and received.subjects.get(call.id, call.name) == approval.scope
                ]
    if not exact:
        raise ConflictError(
            "the call by which it was given is not there any more",
            advice="Revoke it; narrow the yes when you are asked again.",
        )
    return list(dict.fromkeys(exact))


def _exact(call: ToolCall) -> str:
    exact = exact_arguments(call.arguments)
    if exact is None:
        raise InvalidInputError(
            f"a yes to `{call.name}` cannot be narrowed to its arguments: they are no JSON object",
            advice="Narrow it to a time, or say yes to this call alone.",
        )
    return exact


def _in_future(until: datetime | None, now: datetime) -> datetime | None:
    if until is None:
        return None
    if until <= now:
        raise InvalidInputError(
            f"{until.isoformat()} has passed: a yes until then would cover nothing",
            advice="Say a time that is to come.",
        )
    return in_milliseconds(until)
