"""Generated histories of a run loop: any order of events that the agent could journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from service.domain.errors import Problem
from service.domain.events import (
    CallDecision,
    CompactionFinished,
    CompactionStarted,
    ErrorOccurred,
    Event,
    EventBody,
    InputReceived,
    InputRequired,
    IterationAbandoned,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
    RunLoopInterrupted,
    RunLoopResumed,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.fold import begin, evolve
from service.domain.messages import Message, TextPart, ThinkPart, ToolCall
from service.domain.run_loops import RESUMABLE
from service.domain.state import RunLoopState

BEGINNING = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)

# Strategies that do not depend on a state are made once: making and checking them takes longer
# than drawing from them.
words = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.strip)
_perhaps_words = st.none() | words
_perhaps_yes = st.none() | st.booleans()
_tool_names = st.sampled_from(["add", "now"])
_call_counts = st.integers(0, 3)
_one_in_eight = st.integers(0, 7)
_lengths = st.integers(0, 40)
_modes = st.sampled_from(["steer", "followup", "interrupt"])
_usage = st.builds(
    Usage,
    model=st.just("m"),
    input_tokens=st.integers(0, 9),
    output_tokens=st.just(4),
    cost=st.none() | st.just(0.5),
)
_cut_short = words.map(lambda text: MessageCompleted(message=Message.assistant(text), cut=True))


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
        ToolCall(id=f"call_{n}", name=draw(_tool_names), arguments="{}")
        for n in range(draw(_call_counts))
    )
    thought = draw(_perhaps_words)
    said = draw(words if not calls else _perhaps_words)
    content = (
        *([ThinkPart(think=thought)] if thought else []),
        *([TextPart(text=said)] if said else []),
    )
    return Message(role="assistant", content=content, tool_calls=calls)


_answers_of_model = assistant_messages().map(lambda message: MessageCompleted(message=message))

Choices = list[st.SearchStrategy[EventBody]]


def _usual(state: RunLoopState) -> Choices:
    """What comes next in the ordinary run of things."""
    if state.awaiting is not None:
        return _answers(state.awaiting)
    if state.thinking:
        return [_answers_of_model]
    if state.pending:
        return _acts(state)
    if state.status == "idle" and not state.unseen:
        return [_messages(state)]
    return [_iterations(state), _iterations(state), _usage]


def _unusual(state: RunLoopState) -> Choices:
    """What else the agent could journal in this state."""
    choices: Choices = [
        _messages(state),
        st.just(RunLoopCancelled()),
        st.just(ErrorOccurred(problem=Problem(kind="storage", title="full"))),
        st.just(ErrorOccurred(problem=Problem(kind="llm-context", title="too long"))),
    ]
    if state.awaiting is not None or state.thinking or state.pending:
        choices.append(st.just(RunLoopInterrupted(message_id="m")))
    if state.thinking:
        choices += [
            _cut_short,
            st.just(RunLoopFailed(problem=Problem(kind="llm", title="gone"))),
            st.just(CompactionStarted(tokens=9, limit=8)),
            _compactions(state),
        ]
        if state.history[-1:] and not state.history[-1].text and state.history[-1].notes:
            choices.append(st.just(IterationAbandoned(index=state.iteration_count - 1)))
    elif not state.pending and state.awaiting is None:
        quiet = state.status == "idle" and not state.unseen
        choices += [
            st.just(RunLoopCompleted() if quiet else RunLoopIdle()),
            _compactions(state),
        ]
    return choices


def _next_bodies(draw: st.DrawFn, state: RunLoopState) -> Choices:
    if not state.is_active:
        return [st.just(RunLoopResumed())] if state.status in RESUMABLE else []
    return _unusual(state) if draw(_one_in_eight) == 7 else _usual(state)


def _messages(state: RunLoopState) -> st.SearchStrategy[EventBody]:
    return st.builds(
        lambda text, mode: MessageReceived(
            message_id=f"m{state.last_seq}", message=Message.user(text), mode=mode
        ),
        words,
        _modes,
    )


def _iterations(state: RunLoopState) -> st.SearchStrategy[EventBody]:
    waiting = [unseen.id for unseen in state.unseen]
    seen: st.SearchStrategy[tuple[str, ...] | None] = st.none()
    if waiting:
        # A conversation begins with somebody's words.
        least = 0 if state.history else 1
        seen |= st.lists(st.sampled_from(waiting), unique=True, min_size=least).map(tuple)
    elif state.history:
        seen |= st.just(())
    return st.builds(
        IterationStarted,
        index=st.just(state.iteration_count),
        message_ids=seen,
        nudge=_perhaps_words,
    )


def _answers(request: InputRequired) -> list[st.SearchStrategy[EventBody]]:
    decisions = st.lists(
        st.builds(
            CallDecision,
            call_id=st.sampled_from([call.id for call in request.tool_calls] or ["none"]),
            approved=_perhaps_yes,
            arguments=st.none() | st.just("{}"),
        ),
        max_size=2,
    ).map(tuple)
    answer = st.builds(
        InputReceived,
        request_id=st.just(request.request_id),
        approved=_perhaps_yes,
        text=_perhaps_words,
        decisions=decisions,
        remember=st.none() | st.just("run_loop"),
        scopes=st.just(("add",)),
    )
    return [answer, st.just(InputReceived(request_id="another", approved=True))]


def _acts(state: RunLoopState) -> list[st.SearchStrategy[EventBody]]:
    calls = tuple(waiting.call for waiting in state.pending)
    ids = [call.id for call in calls]
    return [
        st.sampled_from(ids).map(
            lambda id_: ToolStarted(call_id=id_, name="add", arguments="{}", idempotency_key="k")
        ),
        st.builds(
            ToolFinished,
            call_id=st.sampled_from(ids),
            name=st.just("add"),
            content=words,
            is_error=st.booleans(),
            whole=_perhaps_words,
        ),
        st.just(InputRequired(request_id="r", kind="approve", prompt="?", tool_calls=calls)),
        st.just(InputRequired(request_id="r", kind="prompt", prompt="?", call_id=ids[0])),
        st.just(InputRequired(request_id="r", kind="select", prompt="?", options=("a", "b"))),
    ]


def _compactions(state: RunLoopState) -> st.SearchStrategy[EventBody]:
    """The first whole rounds give way to a message each."""
    starts = [
        index for index, message in enumerate(state.history) if message.role == "user" and index
    ]
    if state.pending or not starts:
        return st.just(
            CompactionFinished(messages=0, method="extract", tokens_before=9, tokens_after=9)
        )
    return st.builds(
        lambda gone, text: CompactionFinished(
            messages=gone,
            replacement=(Message.user(text), Message.assistant("I did it.")),
            method="model",
            tokens_before=9,
            tokens_after=3,
        ),
        st.sampled_from(starts),
        words,
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A history from its start; most end in the middle, as a crash would leave them."""
    goal = draw(words)
    events = [event_at(1, RunLoopStarted(goal=goal)), event_at(2, received(goal))]
    state = evolve(begin(events[0]), events[1])
    for seq in range(3, 3 + draw(_lengths)):
        choices = _next_bodies(draw, state)
        if not choices:
            break
        body = choices[draw(st.integers(0, len(choices) - 1))]  # none of the others is looked at
        event = event_at(seq, draw(body))
        events.append(event)
        state = evolve(state, event)
    return events
