"""A brain made of a function, and what is said where a run loop's own code fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from service.domain.conversation.instructions import Instruction
from service.domain.errors import Problem
from service.domain.history.events import Event, RunLoopFailed
from service.domain.history.state import RunLoopState
from tests.support.agent.agents import types


class Thinks:
    """A brain that is a function."""

    def __init__(self, next_: Callable[[RunLoopState], Any]) -> None:
        self._next = next_

    def next(self, state: RunLoopState) -> Instruction | None:
        instruction: Instruction | None = self._next(state)
        return instruction


def problem_of(events: Sequence[Event]) -> Problem:
    body = events[-1].body
    assert isinstance(body, RunLoopFailed), types(events)
    return body.problem
