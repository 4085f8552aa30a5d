"""Executors: each carries out one kind of instruction, and reports what happened as events.

An executor is given the loop that it works on, and tells it each event with `Loop.emit`, which
returns once the event is journaled: so each is on record before the next begins. (Async generators
would read as well, but may not yield from inside a task group, and tools run side by side.)

Executors can be replaced: those given to the agent go before those of the configuration, and these
before the built-in ones.
"""

from __future__ import annotations

from functools import partial

from service.domain.conversation.instructions import InstructionKind
from service.loop.execution import Executor
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors.call_llm import call_llm
from service.loop.executors.call_tools import call_tools
from service.loop.executors.compact import compact
from service.loop.executors.waiting import (
    finish,
    request_human_approve,
    request_human_prompt,
    request_human_select,
)


def builtin_executors(deps: ExecutorDeps) -> dict[InstructionKind, Executor]:
    """One executor for each kind of instruction."""
    return {
        "call_llm": partial(call_llm, deps),
        "call_tools": partial(call_tools, deps),
        "request_human_approve": partial(request_human_approve, deps),
        "request_human_prompt": request_human_prompt,
        "request_human_select": request_human_select,
        "compact": partial(compact, deps),
        "finish": finish,
    }
