"""The brain: from a run loop's state to what is to be done next. Pure; it does nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.domain.instructions import (
    CallLLM,
    CallTools,
    Finish,
    Instruction,
    RequestHumanApprove,
)
from service.domain.messages import ToolCall
from service.domain.state import RunLoopState


@dataclass(frozen=True, slots=True)
class Brain:
    """Observe, think, act, until everything that came in has been answered."""

    needs_approval: Callable[[ToolCall], bool]
    max_iterations: int = 10
    """Model calls after a person last spoke; the last of them offers no tools."""

    def next(self, state: RunLoopState) -> Instruction:
        """What to do next in a loop that is running."""
        if state.pending:
            undecided = tuple(
                waiting.call
                for waiting in state.pending
                if waiting.approved is None
                and not waiting.started
                and self.needs_approval(waiting.call)
            )
            asked = {call.id for call in undecided}
            ready = tuple(w.call for w in state.pending if w.call.id not in asked)
            # What needs nobody's yes does not wait for somebody's yes.
            return CallTools(ready) if ready else RequestHumanApprove(undecided)
        answered = state.history and state.history[-1].role == "assistant"
        if state.unseen or state.thinking or (state.history and not answered):
            count = 1 if state.unseen else state.iterations_since_user + (not state.thinking)
            return CallLLM(offer_tools=count < self.max_iterations)
        return Finish()
