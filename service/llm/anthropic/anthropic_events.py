"""Reads the events of Anthropic's streams into stream parts.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming

>>> reader = EventReader("m")
>>> block = {"type": "text", "text": "Hi"}
>>> reader.read({"type": "content_block_start", "index": 0, "content_block": block})
[TextDelta(text='Hi')]
>>> reader.read({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}), reader.ending
([], 'stop')
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.domain.conversation.stream_parts import (
    ResponseInfo,
    StreamPart,
    TextDelta,
    ThinkDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.errors import LLMError, LLMStreamError
from service.llm.anthropic.anthropic_wire import REDACTED
from service.llm.remote.answer_limit import AnswerBound
from service.llm.remote.remote_model import FINISH_REASONS, Ending

_ENDINGS: Mapping[str, Ending] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "window",
}
_COUNTS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


@dataclass(slots=True)
class _Block:
    """A content block that has begun and not ended."""

    kind: str
    slot: int
    """Of a tool call: which one it is."""
    given: str = ""
    """Of a tool call: arguments that came with its beginning; pieces that follow replace them."""
    signature: str = ""


class EventReader:
    """Turns the events of one stream into stream parts.

    Satisfies `service.llm.remote.remote_model.Reader`. Events and blocks of other kinds are
    passed over, as the API may add some.
    """

    def __init__(self, model: str, *, longest: int = 1_000_000) -> None:
        """Begin an answer.

        Args:
            model: whose it is.
            longest: how many characters it may have.
        """
        self._model = model
        self._bound = AnswerBound(model, longest)
        self._open: dict[int, _Block] = {}
        self._calls = 0
        self._counts: dict[str, int] = {}
        self.ending: Ending | None = None
        self.has_content = False
        self.chunks = 0

    def read(self, chunk: object) -> list[StreamPart]:
        """The parts of one event.

        Raises:
            LLMStreamError: it is not of the expected form, or the answer does not come to an end.
            LLMError: the model refuses to answer.
        """
        event = _object(chunk)
        if event is None:
            raise _malformed(f"an event is not a JSON object but a {type(chunk).__name__}")
        self.chunks += 1
        parts: list[StreamPart] = []
        match event.get("type"):
            case "message_start":
                message = _object(event.get("message")) or {}
                self._count(message)
                if response_id := _word(message.get("id")):
                    parts.append(ResponseInfo(id=response_id))
            case "content_block_start":
                parts.extend(self._start(event))
            case "content_block_delta":
                parts.extend(self._delta(event))
            case "content_block_stop":
                parts.extend(self._stop(_index(event)))
            case "message_delta":
                parts.extend(self._end(event))
        self._bound.add(parts)
        return parts

    def finish(self) -> list[StreamPart]:
        """What belongs to blocks whose end did not come."""
        return [part for index in list(self._open) for part in self._stop(index)]

    def _start(self, event: Mapping[str, Any]) -> Iterator[StreamPart]:
        block = _object(event.get("content_block")) or {}
        kind = str(block.get("type"))
        opened = self._open[_index(event)] = _Block(kind, self._calls)
        match kind:
            case "text":
                yield from self._text(block.get("text"))
            case "thinking":
                opened.signature = _word(block.get("signature"))
                if think := _word(block.get("thinking")):
                    yield ThinkDelta(think)
            case "redacted_thinking":
                opened.signature = REDACTED + _word(block.get("data"))
            case "tool_use":
                name = _word(block.get("name"))
                if not name:
                    raise _malformed("a tool call has no name")
                self._calls += 1
                self.has_content = True
                if given := block.get("input"):
                    opened.given = json.dumps(given, ensure_ascii=False)
                yield ToolCallDelta(opened.slot, id=_word(block.get("id")) or None, name=name)

    def _delta(self, event: Mapping[str, Any]) -> Iterator[StreamPart]:
        block = self._open.get(_index(event))
        if block is None:
            raise _malformed("a piece of a content block came before its beginning")
        delta = _object(event.get("delta")) or {}
        match delta.get("type"):
            case "text_delta":
                yield from self._text(delta.get("text"))
            case "thinking_delta":
                if think := _word(delta.get("thinking")):
                    yield ThinkDelta(think)
            case "signature_delta":
                block.signature = _word(delta.get("signature"))
            case "input_json_delta" if block.kind == "tool_use":
                if piece := _word(delta.get("partial_json")):
                    block.given = ""
                    yield ToolCallDelta(block.slot, arguments=piece)

    def _stop(self, index: int) -> Iterator[StreamPart]:
        block = self._open.pop(index, None)
        if block is not None and block.given:
            yield ToolCallDelta(block.slot, arguments=block.given)
        if block is not None and block.signature:
            yield ThinkDelta("", signature=block.signature)

    def _text(self, text: object) -> Iterator[StreamPart]:
        if words := _word(text):
            self.has_content = self.has_content or not words.isspace()
            yield TextDelta(words)

    def _end(self, event: Mapping[str, Any]) -> Iterator[StreamPart]:
        delta = _object(event.get("delta")) or {}
        self._count(event)
        if event.get("usage"):
            yield self._usage()
        reason = delta.get("stop_reason")
        if reason == "refusal":
            details = _object(delta.get("stop_details")) or {}
            why = _word(details.get("explanation")) or _word(details.get("category"))
            raise LLMError(
                f"{self._model} refuses to answer" + (f": {why}" if why else ""),
                advice="Put the request in other words, in a new conversation.",
            )
        if reason:
            self.ending = _ENDINGS.get(str(reason), "stop")
            if self.ending in FINISH_REASONS:
                yield ResponseInfo(finish_reason=FINISH_REASONS[self.ending])

    def _count(self, holder: Mapping[str, Any]) -> None:
        usage = _object(holder.get("usage")) or {}
        # All counts are of the whole answer so far; later events may leave some out.
        self._counts |= {name: usage[name] for name in _COUNTS if isinstance(usage.get(name), int)}

    def _usage(self) -> TokenUsage:
        fresh, written, read, output = (self._counts.get(name, 0) for name in _COUNTS)
        return TokenUsage(
            self._model,
            input_tokens=fresh + written + read,
            output_tokens=output,
            cached_input_tokens=read,
        )


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise _malformed("a content block has no number")
    return index


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _malformed(detail: str) -> LLMStreamError:
    return LLMStreamError(
        detail, advice="The endpoint does not follow the streaming format; try again."
    )
