"""Generated histories of a run loop: any order of events that the agent could journal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from hypothesis import strategies as st

from service.agent.moving.move_plan import is_free, plan
from service.agent.moving.moved_rounds import Round, round_of
from service.domain.conversation.messages import Message, TextPart, ThinkPart, ToolCall
from service.domain.errors import ConflictError, Problem
from service.domain.history.events import (
    CompactionFinished,
    CompactionStarted,
    ErrorOccurred,
    Event,
    EventBody,
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
from service.domain.history.fold import begin, evolve
from service.domain.history.human_input import CallDecision, InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RESUMABLE

BEGINNING = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)

# Strategies that do not depend on a state are made once: making and checking them takes longer
# than drawing from them.
words = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.strip)
_perhaps_words = st.none() | words
_perhaps_yes = st.none() | st.booleans()
_tool_names = st.sampled_from(["add", "now"])
_call_counts = st.integers(0, 3)
_one_in_eight = st.integers(0, 7)
_seldom = st.integers(0, 11).map(lambda drawn: drawn == 11)
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


_answers_of_model = st.builds(
    MessageCompleted,
    message=assistant_messages(),
    finish_reason=st.sampled_from([None, None, "length", "content_filter"]),
    response_id=st.none() | st.just("resp_1"),
)

Choices = list[st.SearchStrategy[EventBody]]


def _usual(state: RunLoopState) -> Choices:
    """What comes next in the ordinary run of things."""
    if state.awaiting is not None:
        return _answers(state.awaiting)
    if state.thinking:
        return [_answers_of_model]
    if state.pending:
        return _acts(state)
    if not state.unseen and (state.status == "idle" or not state.history):
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
        continues=st.booleans() if state.cut_off and not waiting else st.just(False),
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
    # Who answers late has answered something that was asked then: under an id of its own.
    late = InputReceived(request_id=f"late{request.request_id}", approved=True)
    return [answer, st.just(late)]


def _acts(state: RunLoopState) -> list[st.SearchStrategy[EventBody]]:
    calls = tuple(waiting.call for waiting in state.pending)
    ids = [call.id for call in calls]
    ask = partial(InputRequired, request_id=f"r{state.last_seq}", prompt="?")
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
        st.just(ask(kind="approve", tool_calls=calls)),
        st.just(ask(kind="prompt", call_id=ids[0])),
        st.just(ask(kind="select", options=("a", "b"))),
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
def histories(draw: st.DrawFn, *, moves: bool = True) -> list[Event]:
    """A history from its start; most end in the middle, as a crash would leave them.

    Args:
        draw: as hypothesis gives it.
        moves: whether messages leave the loop, and come back to it.
    """
    goal = draw(words)
    events = [event_at(1, RunLoopStarted(goal=goal)), event_at(2, received(goal))]
    state = evolve(begin(events[0]), events[1])
    elsewhere: list[list[Event]] = []
    for _ in range(draw(_lengths)):
        bodies = _moved(draw, events, state, elsewhere) if moves and draw(_seldom) else ()
        if not bodies:
            choices = _next_bodies(draw, state)
            if not choices:
                break
            # None of the others is looked at.
            bodies = (draw(choices[draw(st.integers(0, len(choices) - 1))]),)
        for body in bodies:
            events.append(event_at(len(events) + 1, body))
            state = evolve(state, events[-1])
    return events


def _moved(
    draw: st.DrawFn, events: list[Event], state: RunLoopState, elsewhere: list[list[Event]]
) -> Sequence[EventBody]:
    """A message leaves the loop, for a new one; or what has left it comes back."""
    comes_back = draw(st.booleans())
    if elsewhere and comes_back:
        other = elsewhere.pop()
        back = _round(draw, other)
        if back is None or (back.came_to_something and not is_free(state)):
            return ()
        arriving = plan(back, state, read_at=0).target
        return () if arriving.owner is not None else arriving.bodies
    round_to_move = _round(draw, events)
    if round_to_move is None:
        return ()
    planned = plan(round_to_move, None, read_at=0)
    there = [
        event_at(n, body, run_loop_id=planned.target.run_loop_id)
        for n, body in enumerate(planned.target.bodies, 1)
    ]
    elsewhere.append(there)
    return planned.source.bodies


def _round(draw: st.DrawFn, events: list[Event]) -> Round | None:
    """What is moved with some message; None where it is not there any more, or was summarised."""
    ids = [each.body.message_id for each in events if isinstance(each.body, MessageReceived)]
    try:
        candidate = round_of(events, draw(st.sampled_from(ids)))
    except ConflictError:
        return None
    return candidate if isinstance(candidate, Round) else None
