"""Which tools the model is offered."""

from __future__ import annotations

from service.agent.workbench import Workbench
from service.domain.state import RunLoopState
from service.domain.tools import ToolDefinition
from service.tools.registry import READ_RESULT


def offered_tools(bench: Workbench, state: RunLoopState) -> tuple[ToolDefinition, ...]:
    """The tools of the house, less those that make no sense in this state.

    What reads on in an over-long result is offered from the first such result on: where there is
    none it would only distract, small models above all.
    """
    definitions = bench.tools.definitions()
    if state.cut_results:
        return definitions
    return tuple(each for each in definitions if each.name != READ_RESULT)
