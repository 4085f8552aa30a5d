"""Asking a person: may this run, what do you say, which one. The loop waits for it, for days."""

from __future__ import annotations

from service.agent.loop import Loop
from service.agent.workbench import Workbench
from service.domain.events import InputRequired
from service.domain.ids import new_id
from service.domain.instructions import (
    RequestHumanApprove,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from service.tools.approval import subjects


async def request_human_approve(
    bench: Workbench, instruction: RequestHumanApprove, loop: Loop
) -> None:
    """Ask a person whether these calls may run."""
    calls = instruction.calls
    what = "; ".join(f"{call.name} {call.arguments}" for call in calls)
    request = InputRequired(
        request_id=new_id(),
        kind="approve",
        prompt=f"May this run? {what}",
        tool_calls=calls,
        scopes=subjects(calls, bench.tools),
    )
    await loop.emit(request, durable=True)


async def request_human_prompt(instruction: RequestHumanPrompt, loop: Loop) -> None:
    """Ask a person a question in words."""
    request = InputRequired(
        request_id=new_id(), kind="prompt", prompt=instruction.prompt, call_id=instruction.call_id
    )
    await loop.emit(request, durable=True)


async def request_human_select(instruction: RequestHumanSelect, loop: Loop) -> None:
    """Ask a person to choose."""
    request = InputRequired(
        request_id=new_id(),
        kind="select",
        prompt=instruction.prompt,
        options=instruction.options,
        multiple=instruction.multiple,
        call_id=instruction.call_id,
    )
    await loop.emit(request, durable=True)
