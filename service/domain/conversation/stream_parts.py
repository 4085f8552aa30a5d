"""The pieces that a model's answer streams in, and how they merge into one message.

Text and reasoning merge in place with the part before them. Tool calls are accumulated by index,
so that interleaved calls cannot corrupt each other.

>>> assembler = MessageAssembler()
>>> for delta in (
...     ToolCallDelta(index=0, id="a", name="add", arguments='{"x"'),
...     ToolCallDelta(index=1, id="b", name="now"),
...     ToolCallDelta(index=0, arguments=": 1}"),
... ):
...     assembler.add(delta)
>>> [(call.name, call.arguments) for call in assembler.message().tool_calls]
[('add', '{"x": 1}'), ('now', '{}')]
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from service.domain.conversation.messages import (
    ContentPart,
    FinishReason,
    Message,
    TextPart,
    ThinkPart,
    ToolCall,
)
from service.domain.errors import LLMStreamError
from service.domain.ids import new_id
from service.domain.text import well_formed


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkDelta:
    """A piece of reasoning, or the signature that closes it."""

    think: str
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of the tool call number `index`. The first piece of a call names it."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What the call used, as the endpoint counts it. The last report of a stream counts."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    """How many of the input tokens came from the endpoint's cache, where they cost less."""


@dataclass(frozen=True, slots=True)
class ResponseInfo:
    """What the endpoint says of the answer as a whole. The last that is told of each counts."""

    id: str | None = None
    """Under which the provider knows it."""
    finish_reason: FinishReason | None = None
    """Why it is not whole."""


StreamPart = TextDelta | ThinkDelta | ToolCallDelta | TokenUsage | ResponseInfo
_LONGEST_ID = 256


@dataclass(slots=True)
class _OpenCall:
    id: str
    name: str
    arguments: str
    given: bool = False
    """Whether `completed_call` has given it."""

    def call(self) -> ToolCall:
        arguments = well_formed(self.arguments).strip() or "{}"
        return ToolCall(id=self.id, name=self.name, arguments=arguments)


class MessageAssembler:
    """Merges stream parts into one assistant message."""

    def __init__(self) -> None:
        self._parts: list[ContentPart] = []
        self._buffer: list[str] = []
        self._calls: dict[int, _OpenCall] = {}
        self.usage: TokenUsage | None = None
        """What the stream reported last."""
        self.response_id: str | None = None
        self.finish_reason: FinishReason | None = None

    def add(self, part: StreamPart) -> None:
        """Merge one piece.

        Raises:
            LLMStreamError: a tool-call piece belongs to no call that was named before it.
        """
        match part:
            case TextDelta(text=text):
                self._add_text(text)
            case ThinkDelta():
                self._add_think(part)
            case ToolCallDelta():
                self._add_call(part)
            case TokenUsage():
                self.usage = part
            case ResponseInfo(id=response_id, finish_reason=reason):
                if response_id is not None:
                    self.response_id = well_formed(response_id)[:_LONGEST_ID] or None
                self.finish_reason = reason or self.finish_reason

    def message(self) -> Message:
        """The assistant message of all pieces so far."""
        self._flush()
        return Message(
            role="assistant",
            content=tuple(self._parts),
            tool_calls=tuple(call.call() for _, call in sorted(self._calls.items())),
        )

    def cut_calls(self) -> frozenset[str]:
        """The ids of tool calls that an answer which is not whole can have broken off in.

        A call whose arguments are a whole JSON object is complete. One without any may not take
        any: it is complete if another call has begun after it.
        """
        calls = [call for _, call in sorted(self._calls.items())]
        last = calls[-1:]
        return frozenset(
            call.id
            for call in calls
            if not (_is_object(call.arguments) or (call not in last and not call.arguments.strip()))
        )

    def completed_call(self, index: int) -> ToolCall | None:
        """A tool call, once: as soon as its arguments are a whole JSON object.

        Nothing that could follow such an object would leave it valid, so it can be used before the
        stream ends.
        """
        call = self._calls.get(index)
        if call is None or call.given or not call.arguments.rstrip().endswith("}"):
            return None
        call.given = _is_object(call.arguments)  # else the tool will say what is wrong with it
        return call.call() if call.given else None

    # Long answers arrive in thousands of pieces: they are collected in a list and joined once.
    def _add_text(self, text: str) -> None:
        if not text:
            return
        if not (self._parts and isinstance(self._parts[-1], TextPart)):
            self._flush()
            self._parts.append(TextPart(text=""))
        self._buffer.append(text)

    def _add_think(self, delta: ThinkDelta) -> None:
        last = self._parts[-1] if self._parts else None
        # A signature closes its part: what follows is another thought, also one without words.
        if not isinstance(last, ThinkPart) or last.signature is not None:
            if not delta.think and delta.signature is None:
                return
            self._flush()
            self._parts.append(ThinkPart(think=""))
        self._buffer.append(delta.think)
        if delta.signature is not None:
            self._flush()
            self._parts[-1] = self._parts[-1].model_copy(update={"signature": delta.signature})

    def _flush(self) -> None:
        if not self._buffer:
            return
        text, self._buffer = well_formed("".join(self._buffer)), []
        last = self._parts[-1]
        if isinstance(last, TextPart):
            self._parts[-1] = last.model_copy(update={"text": last.text + text})
        elif isinstance(last, ThinkPart):
            self._parts[-1] = last.model_copy(update={"think": last.think + text})

    def _add_call(self, delta: ToolCallDelta) -> None:
        call = self._calls.get(delta.index)
        if call is None:
            if not delta.name:
                raise LLMStreamError(
                    f"a piece of tool call {delta.index} came before its name",
                    advice="The endpoint does not follow the streaming format; try again.",
                )
            taken = {other.id for other in self._calls.values()}
            given = delta.id or ""
            call = _OpenCall(
                id=given if given and given not in taken else f"call_{new_id()}",
                name=delta.name,
                arguments="",
            )
            self._calls[delta.index] = call
        call.arguments += delta.arguments


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
