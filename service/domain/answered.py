"""What a person's answer changes in a run loop that waits for one."""

from __future__ import annotations

from dataclasses import replace

from service.domain.events import InputReceived, InputRequired
from service.domain.messages import Message
from service.domain.state import RunLoopState, UnseenMessage, changed


def answered(state: RunLoopState, answer: InputReceived) -> RunLoopState:
    """The state after an answer: calls are decided upon, or words are heard."""
    request = state.awaiting
    if request is None or request.request_id != answer.request_id:
        return state  # an answer that comes twice, or too late, counts once
    state = changed(state, awaiting=None, status="running", last_answer=answer)
    if request.kind == "approve":
        return _decided(state, request, answer)
    if request.about == "route":
        return state  # said to the router: what they say of the matter is in the message
    words = "\n".join(answer.choices) if answer.choices else answer.text or ""
    if request.call_id is None:
        # Nobody's tool call asked: the answer is what the person says next.
        said = UnseenMessage(answer.request_id, Message.user(words), at=state.updated_at)
        return changed(state, unseen=(*state.unseen, said))
    return changed(
        state,
        pending=tuple(
            replace(waiting, answer=words) if waiting.call.id == request.call_id else waiting
            for waiting in state.pending
        ),
    )


def _decided(state: RunLoopState, request: InputRequired, answer: InputReceived) -> RunLoopState:
    asked = {call.id for call in request.tool_calls}
    pending = []
    for waiting in state.pending:
        if waiting.call.id in asked:
            decision = answer.decision(waiting.call.id)
            decided = replace(
                waiting,
                approved=decision.approved is True,
                denial=decision.reason or "",
                arguments=decision.arguments,
            )
            pending.append(decided)
        else:
            pending.append(waiting)
    allowed = state.allowed
    if answer.remember == "run_loop":
        allowed |= frozenset(answer.scopes)
    return changed(state, pending=tuple(pending), allowed=allowed)
