"""Steps that hand the turn back: a question to a person, rest until the next message, or the end.

A person may take days to answer: may this run, what do you say, which one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

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
from service.loop.execution import Loop
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors.call_tools import finished
from service.loop.replies import withdrawn
from service.tools.approval import AskedAbout, asked_about
from service.tools.protocol import DescribesCall, ToolFailure

log = logging.getLogger(__name__)


async def request_human_approve(
    deps: ExecutorDeps, instruction: RequestHumanApprove, loop: Loop
) -> None:
    """Ask a person whether these calls may run. Those that could not, come to a failure."""
    about, rules = await anyio.to_thread.run_sync(_looked_up, deps, instruction.calls)
    descriptions, undoable = _descriptions(deps, instruction.calls, loop)
    undoable = about.failures | undoable
    calls = tuple(call for call in instruction.calls if call.id not in undoable)
    failures = [
        ToolResult(id=call.id, content=undoable[call.id], is_error=True)
        for call in instruction.calls
        if call.id in undoable
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
        descriptions=descriptions,
        warnings=tuple(_warnings(deps, calls)),
        previews=about.previews,
    )
    await _ask(request, loop)


def _looked_up(
    deps: ExecutorDeps, calls: Sequence[ToolCall]
) -> tuple[AskedAbout, dict[str, str | None]]:
    """What a question has to say of each call, and what a yes that is remembered would cover.

    Tools may look at files for it, which may take long.
    """
    return asked_about(calls, deps.tools), {call.id: deps.rule_of(call) for call in calls}


def _descriptions(
    deps: ExecutorDeps, calls: Iterable[ToolCall], loop: Loop
) -> tuple[dict[str, str], dict[str, str]]:
    """What calls come to, by their ids, and why others cannot be carried out."""
    descriptions: dict[str, str] = {}
    undoable: dict[str, str] = {}
    for call in calls:
        tool = deps.tools.get(call.name)
        if tool is None or not isinstance(tool, DescribesCall):
            continue
        try:
            words = tool.call_in_words(call.arguments, loop.state.run_loop())
        except ToolFailure as failure:
            undoable[call.id] = str(failure)
            continue
        except Exception:
            log.exception("What a call of %s comes to cannot be told", call.name)
            continue
        if words:
            descriptions[call.id] = words
    return descriptions, undoable


def _warnings(deps: ExecutorDeps, calls: Iterable[ToolCall]) -> list[str]:
    tools = [deps.tools.get(name) for name in dict.fromkeys(call.name for call in calls)]
    warnings = (getattr(each, "warning", None) for each in tools)
    return [str(each) for each in warnings if each]


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
