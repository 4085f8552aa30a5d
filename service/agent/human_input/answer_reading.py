"""What a person answered, read against what they were asked. Nothing unclear is taken for a yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.agent.message_check import LONGEST_MESSAGE
from service.domain.conversation.messages import ToolCall
from service.domain.errors import InvalidInputError
from service.domain.history.approval_rules import Narrowing
from service.domain.history.human_input import CallDecision, InputReceived, InputRequired, Remember
from service.tools.arguments import edited_arguments
from service.tools.model_text import well_formed
from service.tools.protocol import ToolFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person answered to a run loop that waits for it, see `Agent.answer`."""

    approved: bool | None = None
    """Whether the calls may run."""
    text: str | None = None
    """The answer in words; for a no, its reason."""
    choices: tuple[str, ...] | None = None
    """Of the options, where some were given to choose from."""
    decisions: tuple[CallDecision, ...] = ()
    """About single calls; they go before `approved`."""
    arguments: str | None = None
    """JSON to run the one call that waits with, instead of the model's own."""
    remember: Remember | None = None
    """How long a yes holds: ``run_loop`` or ``always``; None: for this call alone."""
    narrow: Narrowing | None = None
    """By what one that is remembered is narrower than its scope."""
    request_id: str | None = None
    """Which request is answered; None: the one that is open."""


def read_answer(request: InputRequired, answer: Answer) -> InputReceived:
    """The answer as it is journaled, but for the scopes of what is remembered.

    Edited arguments are read as JSON, but not checked against any schema.

    Raises:
        InvalidInputError: it is no answer to this request; says why.
    """
    if request.kind == "approve":
        return _decided(request, answer)
    _check_that_nothing_is_decided(request, answer)
    if request.kind == "select":
        return InputReceived(request_id=request.request_id, choices=_chosen(request, answer))
    if answer.choices is not None:
        raise _unusable("there is nothing to choose from", "Answer in words: `text`.")
    if answer.text is None or not answer.text.strip():
        raise _unusable("an answer in words is asked for", "Send it as `text`.")
    return InputReceived(request_id=request.request_id, text=_storable(answer.text))


def decisions_of(
    request: InputRequired, received: InputReceived
) -> list[tuple[ToolCall, CallDecision]]:
    """Each call that waited, as it is to run, and what was decided about it."""
    decisions = []
    for call in request.tool_calls:
        decision = received.decision(call.id)
        if decision.arguments is not None:
            call = call.model_copy(update={"arguments": decision.arguments})
        decisions.append((call, decision))
    return decisions


# --- a prompt or a choice


def _check_that_nothing_is_decided(request: InputRequired, answer: Answer) -> None:
    given = {
        "approved": answer.approved is not None,
        "calls": bool(answer.decisions),
        "arguments": answer.arguments is not None,
        "remember": answer.remember is not None,
        "narrow": answer.narrow is not None,
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong:
        asked = "a choice" if request.kind == "select" else "an answer in words"
        raise _unusable(
            f"{asked} is asked for, not `{'`, `'.join(wrong)}`",
            "To say something else instead, send it as a message with the run loop's id.",
        )


def _chosen(request: InputRequired, answer: Answer) -> tuple[str, ...]:
    choices = answer.choices
    if choices is None and answer.text is not None:
        choices = (answer.text,)  # the words of an option are a choice too
    elif answer.text is not None:
        raise _unusable("both `choices` and `text` are given", "Send `choices` alone.")
    chosen = tuple(dict.fromkeys(choices or ()))
    offered = ", ".join(repr(option) for option in request.options)
    how = "Choose at least one" if request.multiple else "Choose one"
    if not chosen or (len(chosen) > 1 and not request.multiple):
        raise _unusable(f"{len(chosen)} options are chosen", f"{how} of {offered}.")
    unknown = [each for each in chosen if each not in request.options]
    if unknown:
        raise _unusable(
            f"{', '.join(map(repr, unknown))[:200]} is not among the options",
            f"{how} of {offered}; or say it in a message with the run loop's id.",
        )
    return chosen


# --- a yes or a no


def _decided(request: InputRequired, answer: Answer) -> InputReceived:
    if answer.choices is not None:
        raise _unusable("there is nothing to choose from", 'Send {"approved": true} or false.')
    calls = {call.id: call for call in request.tool_calls}
    given = _by_call(calls, answer)
    allowed = {
        call_id: _is_allowed(calls[call_id], given.get(call_id), answer) for call_id in calls
    }
    denied = [call_id for call_id, yes in allowed.items() if not yes]
    if answer.text is not None and (answer.approved is True or not denied):
        raise _unusable(
            "`approved` is true, and `text` is there too: the words might take the yes back",
            'Send {"approved": true} alone; or with "approved": false the reason in `text`.',
        )
    if answer.remember is not None and len(denied) == len(calls):
        raise _unusable("a no is not remembered", "Leave out `remember`.")
    if answer.narrow is not None and answer.remember is None:
        raise _unusable(
            "what is not remembered cannot be narrowed", "Leave out `narrow`, or add `remember`."
        )
    if answer.narrow is not None and answer.narrow.is_none:
        raise _unusable(
            "`narrow` does not say by what", 'Send {"arguments": true}, `until`, or both.'
        )
    decisions = (_kept(calls[each.call_id], each) for each in given.values())
    return InputReceived(
        request_id=request.request_id,
        approved=answer.approved,
        text=_storable(answer.text),
        decisions=tuple(sorted(decisions, key=lambda each: each.call_id)),
        remember=answer.remember,
        narrow=answer.narrow,
    )


def _by_call(calls: Mapping[str, ToolCall], answer: Answer) -> dict[str, CallDecision]:
    """The decisions by the id of the call, with the arguments that name no call."""
    by_call: dict[str, CallDecision] = {}
    for decision in answer.decisions:
        if decision.call_id not in calls:
            raise _unusable(
                f"no call {decision.call_id[:80]!r} waits", f"Those that wait: {', '.join(calls)}."
            )
        if decision.call_id in by_call:
            raise _unusable(f"call {decision.call_id} is decided twice", "Decide it once.")
        by_call[decision.call_id] = decision
    if answer.arguments is not None:
        if len(calls) != 1:
            raise _unusable(
                f"{len(calls)} calls wait, and `arguments` does not say for which it is",
                "Give the arguments beside the id of the call.",
            )
        (call_id,) = calls
        decision = by_call.get(call_id, CallDecision(call_id=call_id))
        if decision.arguments is not None:
            raise _unusable("the arguments are given twice", "Give them once.")
        by_call[call_id] = decision.model_copy(update={"arguments": answer.arguments})
    return by_call


def _is_allowed(call: ToolCall, decision: CallDecision | None, answer: Answer) -> bool:
    approved = answer.approved
    if decision is not None and decision.approved is not None:
        approved = decision.approved
    if not isinstance(approved, bool):
        raise _unusable(
            f"call {call.id} of `{call.name}` is neither allowed nor denied",
            'A yes or a no is asked for: send {"approved": true} or false.',
        )
    if decision is not None and approved is True and decision.reason is not None:
        raise _unusable(
            f"call {call.id} is allowed, and words are there too: they might take the yes back",
            "Send the yes alone, or a no with the reason.",
        )
    if decision is not None and approved is not True and decision.arguments is not None:
        raise _unusable(
            f"call {call.id} is denied, and arguments to run it with are there too",
            "Send the arguments with a yes.",
        )
    return approved


def _kept(call: ToolCall, decision: CallDecision) -> CallDecision:
    """A decision in the form in which it is kept; arguments that are the model's own are none."""
    arguments = _storable(decision.arguments)
    try:
        if arguments is not None:
            arguments = edited_arguments(arguments, call.arguments)
    except ToolFailure as failure:
        raise _unusable(f"call {call.id}: {failure}", "Send one JSON object.") from failure
    reason = _storable(decision.reason)
    return decision.model_copy(update={"arguments": arguments, "reason": reason})


def _storable(text: str | None) -> str | None:
    if text is None:
        return None
    if len(text) > LONGEST_MESSAGE:
        raise _unusable(
            f"the answer has {len(text):,} characters; at most {LONGEST_MESSAGE:,} fit",
            "Send a part of it.",
        )
    return well_formed(text)


def _unusable(detail: str, advice: str) -> InvalidInputError:
    return InvalidInputError(detail, advice=advice)
