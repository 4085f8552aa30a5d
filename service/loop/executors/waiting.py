"""Steps that hand the turn back: a question to a person, rest until the next message, or the end.

A person may take days to answer: may this run, what do you say, which one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio.to_thread

from service.domain.conversation.instructions import (
    Finish,
    RequestHumanApprove,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.history.events import RunLoopFailed, RunLoopIdle
from service.domain.history.human_input import InputRequired
from service.domain.ids import new_id
from service.domain.run_loops import RunLoop
from service.loop.execution import Loop
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors.call_tools import finished
from service.loop.replies import withdrawn
from service.tools.approval import AskedAbout, asked_about


async def request_human_approve(
    deps: ExecutorDeps, instruction: RequestHumanApprove, loop: Loop
) -> None:
    """Ask a person whether these calls may run. Those that could not, come to a failure."""
    about, rules = await anyio.to_thread.run_sync(
        _looked_up, deps, instruction.calls, loop.state.run_loop
    )
    calls = tuple(call for call in instruction.calls if call.id not in about.failures)
    failures = [
        ToolResult(id=call.id, content=about.failures[call.id], is_error=True)
        for call in instruction.calls
        if call.id in about.failures
    ]
    if failures:
        names = {call.id: call for call in instruction.calls}
        await loop.emit(*(finished(deps, names[each.id], each) for each in failures))
    if not calls:
        return
    what = "; ".join(f"{call.name} {call.arguments}" for call in calls)
    request = InputRequired(
        request_id=new_id(),
        kind="approve",
        prompt=f"May this run? {what}",
        tool_calls=calls,
        scopes=about.scopes,
        rules={call.id: rules[call.id] for call in calls},
        descriptions=about.descriptions,
        warnings=about.warnings,
        previews=about.previews,
    )
    await _ask(request, loop)


def _looked_up(
    deps: ExecutorDeps, calls: Sequence[ToolCall], run_loop: Callable[[], RunLoop]
) -> tuple[AskedAbout, dict[str, str | None]]:
    """What a question has to say of each call, and what a yes that is remembered would cover.

    Tools may look at files for it, which may take long.
    """
    about = asked_about(calls, deps.tools, run_loop)
    return about, {call.id: deps.rule_of(call) for call in calls}


async def request_human_prompt(instruction: RequestHumanPrompt, loop: Loop) -> None:
    """Ask a person a question in words."""
    request = InputRequired(
        request_id=new_id(),
        kind="prompt",
        prompt=instruction.prompt,
        call_id=instruction.call_id,
        metadata=dict(instruction.metadata),
    )
    await _ask(request, loop)


async def request_human_select(instruction: RequestHumanSelect, loop: Loop) -> None:
    """Ask a person to choose."""
    request = InputRequired(
        request_id=new_id(),
        kind="select",
        prompt=instruction.prompt,
        options=instruction.options,
        multiple=instruction.multiple,
        call_id=instruction.call_id,
        metadata=dict(instruction.metadata),
    )
    await _ask(request, loop)


async def _ask(request: InputRequired, loop: Loop) -> None:
    """Ask, unless the person has said something that the model has not seen: then it sees that."""
    state = loop.state
    said = [unseen.id for unseen in state.unseen if unseen.mode != "followup"]
    # A brain that asks without any call knows what was said.
    bodies = withdrawn(state, request, said[-1]) if said and state.pending else (request,)
    await loop.emit(*bodies, durable=True, if_last_seq=state.last_seq)


async def finish(instruction: Finish, loop: Loop) -> None:
    """Rest, unless something has come in meanwhile; or stop, where there is a problem."""
    if instruction.problem is not None:
        await loop.emit(RunLoopFailed(problem=instruction.problem))
    else:
        await loop.emit(RunLoopIdle(), if_last_seq=loop.state.last_seq)
