"""Run loops' histories made event by event, and compacted without a model."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from service.domain.conversation.messages import ImageUrlPart, Message, TextPart, ToolCall
from service.domain.history.events import (
    CompactionFinished,
    EventBody,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopInterrupted,
    RunLoopStarted,
    ToolFinished,
)
from service.domain.history.fold import evolve, fold
from service.domain.history.state import RunLoopState
from service.loop.context.compaction_plan import (
    Piece,
    Room,
    difference,
    plan,
    plan_merge,
    summarised,
)
from service.loop.context.summaries import extract
from tests.support.histories import event_at, received

WORDS = "The quick brown fox jumps over the lazy dog and runs through the field. "
HAN = "敏捷的棕色狐狸跳过了懒狗，然后跑过了田野。"


class Conversation:
    """A run loop's history, made event by event."""

    def __init__(self, state: RunLoopState | None = None, *, seq: int = 1) -> None:
        """A new one; or one that goes on from a state, with the numbers after `seq`."""
        self._seq = seq
        state = state or fold([event_at(1, RunLoopStarted(goal="goal"))])
        assert state is not None
        self.state = state

    def add(self, *bodies: EventBody) -> Conversation:
        for body in bodies:
            self._seq += 1
            self.state = evolve(self.state, event_at(self._seq, body))
        return self

    def say(self, text: str) -> Conversation:
        message_id = f"m{self._seq}"
        index = self.state.iteration_count
        return self.add(
            received(text, message_id), IterationStarted(index=index, message_ids=(message_id,))
        )

    def answer(self, text: str) -> Conversation:
        if not self.state.thinking:
            self.add(IterationStarted(index=self.state.iteration_count, message_ids=()))
        return self.add(MessageCompleted(message=Message.assistant(text)))

    def step(self, result: str, *, calls: int = 1) -> Conversation:
        if not self.state.thinking:
            self.add(IterationStarted(index=self.state.iteration_count, message_ids=()))
        tool_calls = tuple(
            ToolCall(id=f"c{self._seq}.{n}", name="look", arguments='{"at": "it"}')
            for n in range(calls)
        )
        self.add(MessageCompleted(message=Message.assistant("Let me look.", tool_calls)))
        return self.add(
            *(ToolFinished(call_id=each.id, name="look", content=result) for each in tool_calls)
        )

    def better(self, text: str) -> Conversation:
        """Have the answer bettered."""
        nudge = IterationStarted(
            index=self.state.iteration_count, message_ids=(), nudge="[Look over your answer.]"
        )
        return self.add(nudge, MessageCompleted(message=Message.assistant(text)))

    def show(self, text: str = "") -> Conversation:
        """Show a picture, with or without words."""
        picture = ImageUrlPart(url="https://example.org/a.png")
        words = (TextPart(text=text),) if text else ()
        message = Message(role="user", content=(*words, picture))
        shown = MessageReceived(message_id=f"m{self._seq}", message=message)
        return self.add(shown, IterationStarted(index=self.state.iteration_count))

    def interrupt(self) -> Conversation:
        """Break off what is being done."""
        return self.add(RunLoopInterrupted(message_id="m"))

    def compact(self, limit: int, *, beside: int = 0) -> int:
        before = self.state
        count, replacement = compacted(before, limit, beside=beside)
        finished = CompactionFinished(
            messages=count,
            replacement=replacement,
            method="extract",
            tokens_before=0,
            tokens_after=0,
        )
        self.add(finished)
        return count


def compacted(
    state: RunLoopState, limit: int, *, beside: int = 0
) -> tuple[int, tuple[Message, ...]]:
    """What compaction by extraction makes of a history."""
    room = Room(beside=beside, limit=limit, target=limit // 2)
    history = list(state.history)

    def texts(pieces: Sequence[Piece]) -> dict[Piece, str]:
        return {
            piece: extract(history[slice(*piece.span)], max_tokens=piece.max_tokens)
            for piece in pieces
        }

    history = summarised(history, texts(plan(state, room)))
    if (merged := plan_merge(history, room)) is not None:
        history = summarised(history, texts([merged]))
    return difference(state.history, history)


@st.composite
def long_conversations(draw: st.DrawFn) -> Conversation:
    """Rounds and steps of very different lengths, compacted now and then."""
    made = Conversation()
    length = st.integers(1, 60)
    for number in range(draw(st.integers(1, 12))):
        text = draw(st.sampled_from([WORDS, HAN]))
        made.say(f"{number}: {text * draw(length)}")
        for _ in range(draw(st.integers(0, 6))):
            made.step(text * draw(length), calls=draw(st.integers(1, 3)))
        match draw(st.integers(0, 5)):
            case 0 | 1:
                made.answer(text * draw(length))
            case 2:
                made.answer(text * draw(length)).better(text * draw(length))
            case 3:
                made.interrupt().show(draw(st.sampled_from(["", "What is this?"])))
            case _:
                pass
        if draw(st.booleans()):
            made.compact(draw(st.integers(200, 8000)))
    return made
