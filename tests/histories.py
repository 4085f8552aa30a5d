"""Generated histories of a run loop: any order of events that the agent could journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from service.domain.errors import Problem
from service.domain.events import (
    ErrorOccurred,
    Event,
    EventBody,
    InputReceived,
    InputRequired,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.messages import Message, TextPart, ThinkPart, ToolCall
from service.domain.state import RunLoopState, begin, evolve

BEGINNING = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)

words = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.strip)


def event_at(seq: int, body: EventBody, *, run_loop_id: str = "loop") -> Event:
    return Event(
        seq=seq,
        at=BEGINNING + timedelta(seconds=seq),
        owner="me",
        run_loop_id=run_loop_id,
        body=body,
    )


def received(text: str, message_id: str = "m") -> MessageReceived:
    return MessageReceived(message_id=message_id, message=Message.user(text))


@st.composite
def assistant_messages(draw: st.DrawFn) -> Message:
    calls = tuple(
        ToolCall(id=f"call_{n}", name=draw(st.sampled_from(["add", "now"])), arguments="{}")
        for n in range(draw(st.integers(0, 3)))
    )
    thought = draw(st.none() | words)
    said = draw(words) if not calls else draw(st.none() | words)
    content = (
        *([ThinkPart(think=thought)] if thought else []),
        *([TextPart(text=said)] if said else []),
    )
    return Message(role="assistant", content=content, tool_calls=calls)


def _next_bodies(state: RunLoopState) -> list[st.SearchStrategy[EventBody]]:
    """What the agent could journal next in this state."""
    choices: list[st.SearchStrategy[EventBody]] = [
        words.map(received),
        st.just(RunLoopCancelled()),
        st.just(ErrorOccurred(problem=Problem(kind="storage", title="full"))),
    ]
    if state.awaiting is not None:
        request = state.awaiting.request_id
        choices += [
            st.builds(InputReceived, request_id=st.just(request), approved=st.booleans()),
            st.just(InputReceived(request_id="another", approved=True)),
        ]
    elif state.thinking:
        choices += [
            assistant_messages().map(lambda message: MessageCompleted(message=message)),
            st.just(RunLoopFailed(problem=Problem(kind="llm", title="gone"))),
        ]
    elif state.pending:
        ids = [waiting.call.id for waiting in state.pending]
        choices += [
            st.sampled_from(ids).map(
                lambda id_: ToolStarted(
                    call_id=id_, name="add", arguments="{}", idempotency_key="k"
                )
            ),
            st.builds(
                ToolFinished,
                call_id=st.sampled_from(ids),
                name=st.just("add"),
                content=words,
                is_error=st.booleans(),
            ),
            st.just(
                InputRequired(
                    request_id="r",
                    kind="approve",
                    prompt="?",
                    tool_calls=tuple(waiting.call for waiting in state.pending),
                )
            ),
        ]
    elif state.status == "idle" and not state.unseen:
        choices.append(st.just(RunLoopCompleted()))
    else:
        choices += [
            st.just(IterationStarted(index=len(state.iterations))),
            st.just(RunLoopIdle()),
            st.just(Usage(model="m", input_tokens=3, output_tokens=4)),
        ]
    return choices


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A history from its start; most end in the middle, as a crash would leave them."""
    goal = draw(words)
    events = [event_at(1, RunLoopStarted(goal=goal)), event_at(2, received(goal))]
    state = evolve(begin(events[0]), events[1])
    for seq in range(3, 3 + draw(st.integers(0, 30))):
        if not state.is_active:
            break
        event = event_at(seq, draw(st.one_of(_next_bodies(state))))
        events.append(event)
        state = evolve(state, event)
    return events
