"""The model's window: how long a call may be, and how long a run loop's next call would be."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from service.domain.conversation.messages import Message
from service.domain.history.state import RunLoopState
from service.loop.brain import DefaultBrain
from service.loop.context.model_context import call_tokens, estimated_tokens
from service.loop.context.offered_tools import offered_tools
from service.loop.context.system_prompt import opening_of
from service.loop.executor_deps import ExecutorDeps
from service.tuning import CONTEXT_SHARE


def within_window(brain: DefaultBrain, deps: ExecutorDeps) -> DefaultBrain:
    """The brain, which now has old rounds summarised before a call would be too long.

    Where its limits say from which length on, that counts; else it is a share of the window of the
    model that is asked next.
    """
    if deps.compaction == "off":
        brain = replace(brain, limits=replace(brain.limits, context_tokens=None))
    else:
        brain = replace(brain, most_call_tokens=partial(_most_call_tokens, deps))
    return replace(brain, next_call_tokens=partial(next_call_tokens, deps))


def _most_call_tokens(deps: ExecutorDeps, state: RunLoopState) -> int:
    return int(deps.model(state).window_tokens * CONTEXT_SHARE)


def next_call_tokens(deps: ExecutorDeps, state: RunLoopState) -> int:
    """How long the next call would be, in tokens; see `call_tokens`."""
    return call_tokens(
        state,
        opening=opening_of(deps, state, deps.model(state).llm),
        tools=offered_tools(deps, state),
        window_tokens=deps.model(state).window_tokens,
        landing=_landing(state),
    )


def estimated_next_call(deps: ExecutorDeps, state: RunLoopState) -> int:
    """The same by estimate alone."""
    return estimated_tokens(
        state,
        opening=opening_of(deps, state, deps.model(state).llm),
        tools=offered_tools(deps, state),
        landing=_landing(state),
    )


def _landing(state: RunLoopState) -> list[Message]:
    """What will land with the next call, or soon after it."""
    return [unseen.message for unseen in state.unseen]
