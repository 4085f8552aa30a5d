"""Which tools the model is told of: not more than its window bears.

Where the descriptions of all take more than their share of the window, those that MCP servers have
brought are left out, and `tool_search` is offered, which finds them. What it has found is told by
the history of the run loop, so that a replay gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.conversation.tool_definitions import TOOL_SEARCH, ToolDefinition
from service.domain.history.state import RunLoopState
from service.loop.executor_deps import ExecutorDeps
from service.tools.builtins.tool_search import names_found
from service.tools.registry import READ_RESULT, ToolRegistry
from service.tuning import TOOL_SHARE


def opening_tools(
    tools: ToolRegistry, window_tokens: int | None = None
) -> tuple[ToolDefinition, ...]:
    """The tools with which every conversation begins.

    Args:
        tools: all of them.
        window_tokens: of the model; None: as much as they take.
    """
    return _within_share(tools, window_tokens, has_cut_results=False, found=())


def offered_tools(deps: ExecutorDeps, state: RunLoopState) -> tuple[ToolDefinition, ...]:
    """The tools of Rondo, less those that make no sense in this state.

    What reads on in an over-long result is offered from the first such result on: where there is
    none it would only distract, small models above all.
    """
    return _within_share(
        deps.tools,
        deps.model(state).window_tokens,
        has_cut_results=state.cut_results,
        found=() if deps.tools.get(TOOL_SEARCH) is None else _found(state),
    )


def _within_share(
    tools: ToolRegistry,
    window_tokens: int | None,
    *,
    has_cut_results: bool,
    found: Sequence[str],
) -> tuple[ToolDefinition, ...]:
    left_out = {TOOL_SEARCH} if has_cut_results else {TOOL_SEARCH, READ_RESULT}
    whole = [each for each in tools.definitions() if each.name not in left_out]
    search = tools.get(TOOL_SEARCH)
    share = None if window_tokens is None else int(window_tokens * TOOL_SHARE)
    if share is None or search is None or sum(map(tools.tokens_of, whole)) <= share:
        return tuple(whole)
    brought = {each.name: each for each in whole if tools.is_brought(each.name)}
    own = [each for each in whole if each.name not in brought]
    if not brought:
        return tuple(own)
    fitting: set[str] = set()
    for name in reversed(found):  # what was found last is what is needed now
        tokens = tools.tokens_of(brought[name]) if name in brought else 0
        if name in brought and name not in fitting and tokens <= share:
            fitting.add(name)
            share -= tokens
    # In the order in which they were found: what the model has read stays as it was.
    return (*own, search.definition, *(brought[name] for name in _once(found) if name in fitting))


def _once(names: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(names))


def _found(state: RunLoopState) -> tuple[str, ...]:
    """What was found in a run loop, in the order of its searches; the best of one comes last."""
    found: list[str] = []
    for iteration in state.iterations:
        searches = {each.id for each in iteration.tool_calls if each.name == TOOL_SEARCH}
        for result in iteration.tool_results if searches else ():
            if result.id in searches and not result.is_error:
                found += reversed(names_found(result.content))
    return tuple(found)
