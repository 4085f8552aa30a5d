"""Running tool calls: side by side, each to exactly one result, whatever happens."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread

from service.domain.conversation.instructions import CallTools, RequestHumanSelect
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.tool_definitions import ElicitedAnswer, ToolContext
from service.domain.errors import RondoError
from service.domain.history.events import ToolFinished, ToolStarted
from service.domain.history.human_input import ELICITATION, InputRequired
from service.domain.history.state import OUTCOME_UNKNOWN, PendingCall, RunLoopState
from service.domain.history.tool_events import Grant
from service.domain.ids import new_id
from service.loop.execution import Loop
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors.tool_output import OutputRelay
from service.tools.approval import subject
from service.tools.protocol import InputNeeded, ScopesApproval

_CHANGED = (
    "Not run: what the person said yes to has changed since, such as the content of a script, or"
    " their yes is over by now. Call it again, and they are asked anew."
)


async def call_tools(deps: ExecutorDeps, instruction: CallTools, loop: Loop) -> None:
    """Run the calls side by side; each comes to exactly one result, whatever happens.

    Where tools ask the person in the middle of a call, that is asked once all others are done.
    """
    pending = {waiting.call.id: waiting for waiting in loop.state.pending}
    waiting_calls = [pending[call.id] for call in instruction.calls]
    questions: list[InputRequired] = []
    failures: list[RondoError] = []

    async def work(waiting: PendingCall) -> None:
        try:
            await _call_tool(deps, waiting, loop)
        except InputNeeded as needed:
            questions.append(_asked(waiting.call, needed))
        except RondoError as error:  # out of the group it would come wrapped, and stop the others
            failures.append(error)

    if len(waiting_calls) == 1:
        await work(waiting_calls[0])
    else:
        async with anyio.create_task_group() as group:
            for waiting in waiting_calls:
                group.start_soon(work, waiting)
    if questions:  # the last one is asked; the others come to their turn with its answer
        await loop.emit(*questions, durable=True)
    if failures:
        raise failures[0]


def begin_early(deps: ExecutorDeps, loop: Loop, call: ToolCall) -> None:
    """While the model's answer is still arriving: begin a call, if it may run twice."""
    tool = deps.tools.get(call.name)
    if not deps.begins_early or tool is None or tool.effect not in ("read_only", "idempotent"):
        return
    if not deps.waits_for_person(loop.state, call):
        run = partial(_execute_early, deps, call, loop)
        loop.early_calls.start(call, run, loop.tasks)


def started(
    deps: ExecutorDeps, call: ToolCall, state: RunLoopState, *, asked: bool = False
) -> ToolStarted:
    """That a call of the newest answer begins to run.

    Args:
        deps: know its tool, and what is allowed.
        call: as it runs.
        state: of its run loop.
        asked: whether a person has just said yes to it.
    """
    tool = deps.tools.get(call.name)
    about = subject(call, deps.tools)
    return ToolStarted(
        call_id=call.id,
        name=call.name,
        arguments=call.arguments,
        idempotency_key=_key(state, call),
        effect=None if tool is None else tool.effect,
        about=None if about == call.name else about,
        grant=_grant(deps, call, state, about, asked=asked),
    )


def _grant(
    deps: ExecutorDeps, call: ToolCall, state: RunLoopState, about: str | None, *, asked: bool
) -> Grant:
    if asked:  # a call that was allowed runs before anything else is asked
        answer = state.last_answer
        return Grant(kind="asked", request_id=None if answer is None else answer.request_id)
    if deps.allowed(state, call) is None:
        return Grant(kind="not_needed")
    return deps.granted(state, call, about)


async def execute(
    deps: ExecutorDeps,
    call: ToolCall,
    loop: Loop,
    approved: frozenset[str] | None,
    *,
    shows: bool = True,
    elicited: ElicitedAnswer | None = None,
) -> ToolResult:
    """Run a call between its hooks, see `ToolContext`.

    Raises:
        InputNeeded: the tool asks the person first. Nothing else is raised but cancellation.
    """
    state = loop.state
    context = ToolContext(
        owner=state.owner,
        run_loop_id=state.id,
        idempotency_key=_key(state, call),
        approved=approved,
        can_ask=True,
        elicited=elicited,
    )
    relay = OutputRelay(loop, call.id)
    if shows:
        context = replace(context, show_output=relay.show)
    blocked = await deps.hooks.before_tool_call(loop, call)
    if blocked is not None:
        return ToolResult(id=call.id, content=blocked, is_error=True, notice=True)
    try:
        result = await deps.tools.execute(call, context)
    finally:
        relay.close()
    # What has changed the world is told, also when the loop is stopped just now.
    with anyio.CancelScope(shield=_has_side_effects(deps, call)):
        result = await deps.hooks.after_tool_call(loop, call, result)
    return result  # noqa: RET504  in the scope, to mypy it might not return


def _asked(call: ToolCall, needed: InputNeeded) -> InputRequired:
    question = needed.question
    choice = question if isinstance(question, RequestHumanSelect) else None
    return InputRequired(
        request_id=new_id(),
        kind="prompt" if choice is None else "select",
        prompt=question.prompt,
        options=() if choice is None else choice.options,
        multiple=choice is not None and choice.multiple,
        call_id=call.id,
        metadata={**question.metadata, ELICITATION: dict(needed.kept)},
    )


async def _execute_early(deps: ExecutorDeps, call: ToolCall, loop: Loop) -> ToolResult | None:
    allowed = deps.allowed(loop.state, call)
    try:
        # Nobody has been told yet that it runs, so nobody is shown what it writes.
        return await execute(deps, call, loop, allowed, shows=False)
    except InputNeeded:
        return None  # the person is asked once the call has its turn


async def _call_tool(deps: ExecutorDeps, waiting: PendingCall, loop: Loop) -> None:
    call = waiting.call
    if waiting.answer is not None and waiting.kept is None:
        answered = ToolResult(id=call.id, content=waiting.answer)
        await loop.emit(finished(deps, call, answered))
        return
    has_side_effects = _has_side_effects(deps, call)
    refusal = _refusal(waiting, has_side_effects=has_side_effects)
    approved = _approved(deps, waiting, loop.state)
    if refusal is None and approved is not None:
        look = partial(_has_changed, deps, waiting, approved)
        if await anyio.to_thread.run_sync(look, abandon_on_cancel=True):
            refusal = _CHANGED
    if refusal is not None:
        refused = ToolResult(id=call.id, content=refusal, is_error=True, notice=True)
        await loop.emit(finished(deps, call, refused))
        return
    if waiting.arguments is not None:
        call = call.model_copy(update={"arguments": waiting.arguments})
    elicited = None
    if waiting.kept is not None:
        elicited = ElicitedAnswer(waiting.kept, waiting.answer)
    goes_on = has_side_effects and waiting.kept is not None and waiting.answer is not None
    if not waiting.started or goes_on:
        begin = partial(started, deps, call, loop.state, asked=bool(waiting.approved))
        # To tell what a call is about, some tools look at files; others start in their order.
        looks = isinstance(deps.tools.get(call.name), ScopesApproval)
        began = await anyio.to_thread.run_sync(begin) if looks else begin()
        await loop.emit(began, durable=has_side_effects)
    result = await loop.early_calls.take(call)
    result = result or await execute(deps, call, loop, approved, elicited=elicited)
    if waiting.arguments is not None:
        note = f"[The person had it run with other arguments: {waiting.arguments}]\n"
        result = result.model_copy(update={"content": note + result.content})
    with anyio.CancelScope(shield=True):
        await loop.emit(finished(deps, call, result))
    await anyio.lowlevel.checkpoint_if_cancelled()


def _has_side_effects(deps: ExecutorDeps, call: ToolCall) -> bool:
    """A tool that is gone since it began may have had any effect."""
    tool = deps.tools.get(call.name)
    return tool is None or tool.effect not in ("read_only", "idempotent")


def _approved(
    deps: ExecutorDeps, waiting: PendingCall, state: RunLoopState
) -> frozenset[str] | None:
    """What a call may be about: what it was allowed as, or else what is allowed for longer."""
    if not waiting.approved:
        return deps.allowed(state, waiting.call)
    answer = state.last_answer  # a call that was allowed runs before anything else is asked
    allowed = {} if answer is None else answer.subjects
    about = allowed.get(waiting.call.id, waiting.call.name)
    return frozenset() if about is None else frozenset((about,))


def _has_changed(deps: ExecutorDeps, waiting: PendingCall, approved: frozenset[str]) -> bool:
    """Whether a call is about something else by now than what was allowed, such as a changed
    script. A tool whose subject can change until it begins looks once more, see `ToolContext`."""
    call = waiting.call
    if waiting.arguments is not None:
        call = call.model_copy(update={"arguments": waiting.arguments})
    about = subject(call, deps.tools)
    return about not in approved if about is not None else bool(approved)


def _key(state: RunLoopState, call: ToolCall) -> str:
    for waiting in state.pending:
        if waiting.call.id == call.id and waiting.idempotency_key is not None:
            return waiting.idempotency_key
    return f"{state.id}/{len(state.closed_iterations)}/{call.id}"


def _refusal(waiting: PendingCall, *, has_side_effects: bool) -> str | None:
    """Why a call is not run, in words for the model; None when it is."""
    if waiting.approved is False:
        reason = f" They said: {waiting.denial}" if waiting.denial else ""
        return f"The person did not allow this call.{reason}"
    if waiting.started and has_side_effects and waiting.kept is None:
        return OUTCOME_UNKNOWN
    return None


def finished(deps: ExecutorDeps, call: ToolCall, result: ToolResult) -> ToolFinished:
    """That a call of the newest answer has come to a result."""
    shown = deps.tools.shown(result, call.name)
    return ToolFinished(
        call_id=call.id,
        name=call.name,
        content=shown,
        is_error=result.is_error,
        whole=None if shown == result.content else result.content,
        notice=result.notice,
        outside=not result.notice and deps.tools.brings_outside_text(call.name),
    )
