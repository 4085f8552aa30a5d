"""What long-term memory is given of a run loop: the part that can change no more."""

from __future__ import annotations

from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop


def closed_part(state: RunLoopState) -> RunLoop:
    """The run loop without what is still open; one that has ended, whole.

    Open are the last iteration, until its message and all its results are there, and words that no
    iteration has observed yet.
    """
    if not state.is_active:
        return state.run_loop()
    open_still = state.thinking or bool(state.pending)
    iterations = tuple(state.closed_iterations) if open_still else state.iterations
    return state.run_loop().model_copy(update={"iterations": iterations})
