"""What every move must leave behind: two histories that are whole and well formed."""

from __future__ import annotations

from service.agent.agent import Agent
from service.domain.history.events import Event
from service.domain.history.fold import begin, evolve
from service.domain.history.state import RunLoopState


def assert_well_formed(events: list[Event]) -> RunLoopState:
    """Every prefix folds, and at each point every call has its one result or is pending."""
    state: RunLoopState | None = None
    for event in events:
        state = begin(event) if state is None else evolve(state, event)
        calls = [call.id for message in state.history for call in message.tool_calls]
        results = [str(m.tool_call_id) for m in state.history if m.role == "tool"]
        pending = [waiting.call.id for waiting in state.pending]
        assert sorted(calls) == sorted(results + pending)
        assert state.history_size == sum(message.size for message in state.history)
        assert all(recalled.index <= len(state.history) for recalled in state.recalled)
        assert state.is_active or not state.pending
    assert state is not None
    return state


async def whole(agent: Agent, run_loop_id: str) -> RunLoopState:
    """The state of a loop, checked, and the same as the journal folds to."""
    events = await agent.memory.journal.read(run_loop_id=run_loop_id)
    state = assert_well_formed(events)
    assert await agent.replay(run_loop_id) == state
    return state


def heard(state: RunLoopState) -> list[str | None]:
    """What a person said in a loop, iteration by iteration; None where they said nothing."""
    return [iteration.user_message for iteration in state.iterations]


def answers(state: RunLoopState) -> list[str | None]:
    """What was answered."""
    return [iteration.response for iteration in state.iterations]


def spoken(state: RunLoopState) -> list[str]:
    """What the model is shown of both."""
    return [message.text for message in state.history if message.role in ("user", "assistant")]
