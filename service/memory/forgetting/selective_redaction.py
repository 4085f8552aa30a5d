"""Events without what tells forgotten words, and the one transaction that carries a plan out.

A text that tells some of the words goes whole: what stands beside them mostly tells them again.
What a person typed in an event stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from service.domain.conversation.messages import (
    ContentPart,
    ImageUrlPart,
    Message,
    NotePart,
    TextPart,
    ThinkPart,
    ToolCall,
)
from service.domain.forgetting_terms import FORGOTTEN, FORGOTTEN_ARGUMENTS, PartOfPlace, Removed
from service.domain.history import events, human_input
from service.domain.history.redaction import redacted
from service.domain.run_loops import Iteration
from service.memory.forgetting.plan import Plan
from service.memory.forgetting.words import strings_in
from service.memory.journal.rewriting import Rewriter

Tells = Callable[[str], bool]
"""Whether a text tells some of the words."""


def without_telling(body: events.EventBody, tells: Tells) -> events.EventBody:
    """What a model, a tool or Rondo said, without the texts in it that tell the words.

    The same body where none does; one that only a person has words in is returned as it is.
    """
    match body:
        case events.MessageCompleted():
            message = _message(body.message, tells)
            if message == body.message:
                return body
            # By its id the provider would give the words.
            return body.model_copy(update={"message": message, "response_id": None})
        case events.CompactionFinished():
            messages = tuple(_message(each, tells) for each in body.replacement)
            if messages == body.replacement:
                return body
            return body.model_copy(update={"replacement": messages})
        case human_input.InputReceived():
            return _without_scopes(body) if _scopes_tell(body, tells) else body
        case _:
            return redacted(body) if any(map(tells, _texts(body))) else body


def _texts(body: events.EventBody) -> list[str]:
    """The words of an event that go together or not at all."""
    match body:
        case events.ToolStarted():
            return [body.arguments, body.about or ""]
        case events.ToolFinished():  # a notice is in words of Rondo's own
            return [] if body.notice else [body.content, body.whole or ""]
        case human_input.InputRequired():
            calls = (call.arguments for call in body.tool_calls)
            scopes = (each or "" for each in body.scopes.values())
            shown = (*scopes, *body.previews.values(), *body.descriptions.values())
            return [body.prompt, *body.options, *calls, *shown, *strings_in(body.metadata)]
        case (
            events.LLMRetry()
            | events.LLMFallback()
            | events.ErrorOccurred()
            | events.RunLoopFailed()
        ):
            return [body.problem.detail or ""]
    return []


def _scopes_tell(body: human_input.InputReceived, tells: Tells) -> bool:
    decided = (each.arguments or "" for each in body.decisions)
    subjects = (each or "" for each in body.subjects.values())
    rules = (f"{each.scope} {each.arguments or ''}" for each in body.rules)
    return any(map(tells, (*body.scopes, *rules, *subjects, *decided)))


def _without_scopes(body: human_input.InputReceived) -> human_input.InputReceived:
    """A person's answer, without what it repeats of what was asked."""
    decisions = tuple(each.model_copy(update={"arguments": None}) for each in body.decisions)
    remember = None if body.scopes or body.rules else body.remember
    return body.model_copy(
        update={
            "decisions": decisions,
            "scopes": (),
            "rules": (),
            "narrow": None,
            "subjects": {},
            "remember": remember,
        }
    )


def _message(message: Message, tells: Tells) -> Message:
    content = tuple(_part(part, message, tells) for part in message.content)
    calls = tuple(_call(call, tells) for call in message.tool_calls)
    if (content, calls) == (message.content, message.tool_calls):
        return message
    # Of a thought that only its provider can read nobody knows what it tells.
    kept = tuple(part for part in content if not (isinstance(part, ThinkPart) and not part.think))
    return message.model_copy(update={"content": kept, "tool_calls": calls})


def _part(part: ContentPart, message: Message, tells: Tells) -> ContentPart:
    match part:
        case ThinkPart():
            # Its signature holds for these words alone.
            return ThinkPart(think=FORGOTTEN) if tells(part.think) else part
        case NotePart():
            return NotePart(note=FORGOTTEN) if tells(part.note) else part
        case TextPart() if message.role != "user":
            return TextPart(text=FORGOTTEN) if tells(part.text) else part
        case TextPart() | ImageUrlPart():
            return part


def _call(call: ToolCall, tells: Tells) -> ToolCall:
    return (
        call.model_copy(update={"arguments": FORGOTTEN_ARGUMENTS})
        if tells(call.arguments)
        else call
    )


def import_without(
    body: events.RunLoopImported, tells: Callable[[int, str], bool]
) -> events.RunLoopImported:
    """A run loop from a file, without what tells the words in what was said there later.

    Args:
        body: as it is.
        tells: whether a text of an iteration, by its index, tells some of the words.
    """
    iterations = tuple(
        _iteration(each, lambda text, at=index: tells(at, text))  # type: ignore[misc]
        for index, each in enumerate(body.run_loop.iterations)
    )
    if iterations == body.run_loop.iterations:
        return body
    return body.model_copy(
        update={"run_loop": body.run_loop.model_copy(update={"iterations": iterations})}
    )


def _iteration(iteration: Iteration, tells: Tells) -> Iteration:
    def marked(text: str | None) -> str | None:
        return FORGOTTEN if text and tells(text) else text

    changed = iteration.model_copy(
        update={
            "reasoning": marked(iteration.reasoning),
            "response": marked(iteration.response),
            "tool_calls": tuple(_call(call, tells) for call in iteration.tool_calls),
            "tool_results": tuple(
                each.model_copy(update={"content": marked(each.content)})
                for each in iteration.tool_results
            ),
        }
    )
    return iteration if changed == iteration else changed


def part_of(body: events.EventBody) -> tuple[PartOfPlace, str]:
    """What kind of words an event holds, and the words, for people to know the place by."""
    match body:
        case events.MessageCompleted(message=message):
            called = "; ".join(f"{each.name} {each.arguments}" for each in message.tool_calls)
            return (
                "answer" if message.text else "call"
            ), message.text or message.reasoning or called
        case events.ToolStarted():
            return "call", f"{body.name} {body.arguments}"
        case events.ToolFinished():
            return "result", body.content
        case human_input.InputRequired():
            return "question", body.prompt
        case human_input.InputReceived():
            rules = (f"{each.scope} {each.arguments or ''}".strip() for each in body.rules)
            return "approval", "; ".join((*body.scopes, *rules))
        case events.CompactionFinished():
            return "summary", "\n".join(each.notes or each.text for each in body.replacement)
        case events.MemoryRecalled():
            return "memory", "\n".join(each.content for each in body.recollections)
        case (
            events.LLMRetry()
            | events.LLMFallback()
            | events.ErrorOccurred()
            | events.RunLoopFailed()
        ):
            return "problem", body.problem.detail or body.problem.title
    return "answer", ""


def remove(rewriter: Rewriter, plan: Plan, unreadable_messages: Iterable[str]) -> Removed:
    """Within a transaction: carry a plan out.

    Args:
        rewriter: of the journal.
        plan: made from the journal as it is now.
        unreadable_messages: ids of messages in the inbox that nobody can read.

    Returns:
        What has gone; of long-term memory nothing yet.
    """
    owner = plan.owner
    gone = [rewriter.remove_loop(each, owner=owner) for each in plan.whole]
    messages = sum(each.messages for each in gone)
    approvals = sum(each.approvals for each in gone)
    rewritten = 0
    for run_loop_id, change in plan.changes.items():
        bodies = {seq: b for seq, b in change.bodies.items() if seq not in change.rendered}
        rewriter.rewrite_loop(change.after, bodies, change.quotations)
        rewritten += len(bodies)
        messages += rewriter.remove_messages(
            change.message_ids, owner=owner, run_loop_id=run_loop_id
        )
        approvals += rewriter.remove_approvals(
            owner=owner, scopes=change.approvals, run_loop_id=run_loop_id
        )
    approvals += rewriter.approvals
    schedules = sum(each.schedules for each in gone) + rewriter.schedules
    if plan.selection.everything:
        schedules += rewriter.remove_schedules(owner=owner)
        messages += rewriter.remove_messages(unreadable_messages, owner=owner)
        approvals += rewriter.remove_approvals(owner=owner)
    return Removed(
        events=sum(each.events for each in gone),
        rewritten=rewritten,
        messages=messages,
        usage=sum(each.usage for each in gone),
        approvals=approvals,
        schedules=schedules,
    )
