"""Keeping a fact that a person states themselves, outside of any conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.tool_definitions import REMEMBER
from service.domain.errors import InvalidInputError
from service.domain.ids import new_id
from service.domain.run_loops import Iteration, RunLoop
from service.memory.exchange.importing import Importing
from service.memory.memory import Memory
from service.memory.run_loop_lines import line_of
from service.storage.clock import local_now


async def keep_fact(
    memory: Memory, text: str, *, owner: str, replaces: AnchorRef | None = None
) -> AnchorRef:
    """Remember a fact, as a finished run loop of its own. It is in the journal when this returns.

    Args:
        memory: an open one.
        text: one sentence that is understood by itself.
        owner: whose.
        replaces: what it corrects; that stays, and is marked as superseded.

    Returns:
        The anchor that it will have, a moment later, once it is archived.

    Raises:
        NotFoundError: this owner has nothing at `replaces`.
        InvalidInputError: the text is blank, or not valid Unicode.
        StorageError: the disk refuses; nothing was written.
    """
    fact = " ".join(text.split())
    if not fact:
        raise InvalidInputError("the fact is empty", advice="Say what shall be remembered.")
    arguments = {"fact": fact}
    if replaces is not None:
        await memory.long_term.expand(replaces, owner=owner, before=0, after=0)
        arguments["replaces"] = str(replaces)
    now = local_now()
    call = ToolCall(id="call_1", name=REMEMBER, arguments=json.dumps(arguments, ensure_ascii=False))
    result = ToolResult(id=call.id, content="Remembered.")
    run_loop = RunLoop(
        id=new_id(),
        owner=owner,
        goal=fact,
        status="completed",
        iterations=(Iteration(tool_calls=(call,), tool_results=(result,), timestamp=now),),
        created_at=now,
        completed_at=now,
    )

    async def lines() -> AsyncIterator[bytes]:
        yield line_of(run_loop)

    report = await Importing(memory, owner=owner, source="person").take(lines())
    for failed in report.failed:
        raise InvalidInputError(failed.problem, advice="Send text that is valid Unicode.")
    return AnchorRef(run_loop.id, 0, 0)
