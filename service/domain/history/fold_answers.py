"""What a person's answer changes in a run loop that waits for one."""

from __future__ import annotations

from dataclasses import replace

from service.domain.conversation.messages import Message
from service.domain.history.human_input import ELICITATION, InputReceived, InputRequired
from service.domain.history.state import (
    BeforeAnswer,
    PendingCall,
    RunLoopState,
    UnseenMessage,
    changed,
    named_model,
)
from service.domain.text import quoted


def asked(state: RunLoopState, request: InputRequired) -> RunLoopState:
    """The state in which a person is asked; once more, where what they said was no clear answer."""
    said, unseen = "", state.unseen
    if request.call_id is not None:  # else there is no call to keep the words: they stay unseen
        said = "\n".join(each.message.text for each in unseen if each.id == request.message_id)
        unseen = tuple(each for each in unseen if each.id != request.message_id)
    return changed(
        state,
        awaiting=request,
        status="waiting_for_human_input",
        before_answer=_before(state, request) or state.before_answer,
        unseen=unseen,
        pending=tuple(
            _with_question(waiting, request, said)
            if waiting.call.id == request.call_id
            else waiting
            for waiting in state.pending
        ),
    )


def _with_question(waiting: PendingCall, request: InputRequired, said: str) -> PendingCall:
    kept = request.metadata.get(ELICITATION)
    if isinstance(kept, dict):
        return replace(waiting, kept=kept, answer=None)
    return replace(waiting, said=said) if said else waiting


def answered(state: RunLoopState, answer: InputReceived) -> RunLoopState:
    """The state after an answer: calls are decided upon, or words are heard."""
    request = state.awaiting
    if request is None or request.request_id != answer.request_id:
        return state  # an answer that comes twice, or too late, counts once
    before = _before(state, answer) if request.call_id is not None else None
    state = changed(
        state, awaiting=None, status="running", last_answer=answer, before_answer=before
    )
    if answer.message_id is not None and request.call_id is not None:
        state = _heard(state, answer.message_id)
    if request.kind == "approve":
        return _decided(state, request, answer)
    if request.about == "route":
        return state  # said to the router: what they say of the topic is in the message
    words = "\n".join(answer.choices) if answer.choices else answer.text or ""
    if request.call_id is None:
        # Nobody's tool call asked: the answer is what the person says next.
        said_id = answer.message_id or answer.request_id
        said = UnseenMessage(
            said_id,
            Message.user(words),
            at=state.updated_at,
            model=named_model((each for each in state.unseen if each.id == said_id), None),
        )
        others = (unseen for unseen in state.unseen if unseen.id != said.id)
        return changed(state, unseen=(*others, said))
    return changed(
        state,
        pending=tuple(
            replace(waiting, answer=_with_what_was_said(waiting, words))
            if waiting.call.id == request.call_id
            else waiting
            for waiting in state.pending
        ),
    )


def _before(state: RunLoopState, heard: InputReceived | InputRequired) -> BeforeAnswer | None:
    """Where a loop goes back to without a message, which is heard as an answer just now."""
    if state.awaiting is None or all(each.id != heard.message_id for each in state.unseen):
        return None
    return BeforeAnswer(heard.message_id or "", state)


def _with_what_was_said(waiting: PendingCall, words: str) -> str:
    # A tool that has asked takes an option for what it is.
    return f"{quoted(waiting.said)}\n{words}" if waiting.said and waiting.kept is None else words


def _heard(state: RunLoopState, message_id: str) -> RunLoopState:
    """The state after a message was heard as an answer, by the iteration that had asked."""
    metadata = {
        name: value
        for unseen in state.unseen
        if unseen.id == message_id
        for name, value in unseen.metadata.items()
    }
    iteration = state.iteration
    if iteration is not None and metadata:
        iteration = iteration.model_copy(update={"metadata": {**iteration.metadata, **metadata}})
    unseen = tuple(each for each in state.unseen if each.id != message_id)
    heard = (each for each in state.unseen if each.id == message_id)
    model = named_model(heard, state.model)
    return changed(state, unseen=unseen, iteration=iteration, model=model)


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
    narrowly = state.allowed_narrowly
    if answer.remember == "run_loop":
        narrowly = tuple(dict.fromkeys((*narrowly, *answer.rules)))
    return changed(state, pending=tuple(pending), allowed=allowed, allowed_narrowly=narrowly)
