"""Reads the chunks of OpenAI-style streams, as providers really send them, into stream parts.

What is put up with: tool calls without an index, counted from 1, or all with index 0; ids that
come once, never, or as empty strings; arguments as objects; content as a list of typed pieces;
reasoning under three names, or between tags at the beginning of the content; chunks without
choices; usage in several chunks, and under Groq's name; a repeated ``finish_reason``. What is not:
a piece of a tool call that belongs to no call.

>>> reader = ChunkReader("m")
>>> reader.read({"choices": [{"delta": {"content": "Hi", "reasoning": "short"}}]})
[ThinkDelta(think='short', signature=None), TextDelta(text='Hi')]
>>> reader.read({"choices": [{"delta": {}, "finish_reason": "stop"}]}), reader.ending
([], 'stop')

Reasoning that a model writes into its answer, between ``<think>`` and ``</think>``.

DeepSeek-R1, Qwen and their distillations do so where an endpoint does not take it out. Only tags
that lead the answer count: what has streamed as words cannot be taken back, and a tag later on may
be code, or a quotation. For the same reason a ``</think>`` without a ``<think>`` before it, from an
endpoint whose template opens the tag itself, stays text: let such an endpoint parse the reasoning
(vLLM and SGLang: ``--reasoning-parser``, llama.cpp: ``--reasoning-format deepseek``).

>>> tags = ThinkTags()
>>> [*tags.feed("<thi"), *tags.feed("nk>2 + 2</th"), *tags.feed("ink>\\n\\n4"), *tags.finish()]
[ThinkDelta(think='2 + 2', signature=None), TextDelta(text='4')]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from service.domain.conversation.stream_parts import (
    ResponseInfo,
    StreamPart,
    TextDelta,
    ThinkDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.errors import LLMStreamError
from service.llm.remote.answer_limit import AnswerBound
from service.llm.remote.remote_model import FINISH_REASONS, Ending

_OPEN = "<think>"
_CLOSE = "</think>"
_LEADING = 64
"""How much white space may stand before the tag. It is held back meanwhile."""


class ThinkTags:
    """Parts the content of one answer into reasoning and words, as it comes.

    How the content is cut into pieces makes no difference. What is held back, because it may be
    the beginning of a tag, is never longer than some dozens of characters.
    """

    def __init__(self) -> None:
        self._place: Literal["start", "thinking", "after", "text"] = "start"
        self._held = ""

    def feed(self, content: str) -> Iterator[TextDelta | ThinkDelta]:
        """What the next piece of content adds."""
        self._held += content
        while self._held:
            match self._place:
                case "start" | "after":
                    if not self._opens():
                        return
                case "thinking":
                    think, closed, rest = self._held.partition(_CLOSE)
                    if not closed:
                        kept = _beginning_of(_CLOSE, at_the_end_of=think)
                        think, rest = think[: len(think) - kept], think[len(think) - kept :]
                    self._held = rest
                    if think:
                        yield ThinkDelta(think)
                    if not closed:
                        return
                    self._place = "after"
                case "text":
                    yield TextDelta(self._held)
                    self._held = ""
                case place:
                    assert_never(place)

    def finish(self) -> Iterator[TextDelta | ThinkDelta]:
        """What was held back. The content that may still follow is words."""
        held, self._held = self._held, ""
        if self._place == "thinking":
            if held:
                yield ThinkDelta(held)
            return  # it was never closed: more of it may come
        if self._place == "after":
            held = held.lstrip()
        self._place = "text"
        if held:
            yield TextDelta(held)

    def _opens(self) -> bool:
        """Look for the tag at the beginning of what is held; whether it is clear what this is."""
        words = self._held.lstrip()
        if self._place == "after":
            self._held = words  # white space between the reasoning and the answer
        if len(self._held) - len(words) <= _LEADING:
            if words.startswith(_OPEN):
                self._held, self._place = words[len(_OPEN) :], "thinking"
                return True
            if _OPEN.startswith(words):
                return False
        self._place = "text"
        return True


def _beginning_of(tag: str, *, at_the_end_of: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    for length in range(min(len(tag) - 1, len(at_the_end_of)), 0, -1):
        if at_the_end_of.endswith(tag[:length]):
            return length
    return 0


_ENDINGS: Mapping[str, Ending] = {
    "length": "length",
    "content_filter": "withheld",
    "error": "error",
}


@dataclass(slots=True)
class _Call:
    """A tool call as far as it is known."""

    id: str | None
    named: bool
    held: str = ""
    """Arguments that came before the name."""


class ChunkReader:
    """Turns the chunks of one stream into stream parts; keeps what later chunks refer to.

    Satisfies `service.llm.remote.remote_model.Reader`.
    """

    def __init__(self, model: str, *, longest: int = 1_000_000) -> None:
        """Begin an answer.

        Args:
            model: whose it is.
            longest: how many characters it may have.
        """
        self._model = model
        self._bound = AnswerBound(model, longest)
        self._tags = ThinkTags()
        self._calls: list[_Call] = []
        self._slots: dict[int, int] = {}  # which of the calls an index of the endpoint means now
        self._held = 0
        self._has_id = False
        self.ending: Ending | None = None
        self.has_content = False
        self.chunks = 0

    def read(self, chunk: object) -> list[StreamPart]:
        """The parts of one chunk.

        Raises:
            LLMStreamError: the chunk is not a JSON object, or has a stray piece of a tool call;
                or the answer does not come to an end.
        """
        if not isinstance(chunk, Mapping):
            raise _malformed(f"a chunk is not a JSON object but a {type(chunk).__name__}")
        self.chunks += 1
        self._held = 0
        parts: list[StreamPart] = []
        if not self._has_id and (response_id := _word(chunk.get("id"))):
            self._has_id = True
            parts.append(ResponseInfo(id=response_id))
        for choice in _objects(chunk.get("choices")):
            if choice.get("index") not in (0, None):
                continue  # one answer was asked for
            parts.extend(self._choice(choice))
        parts.extend(self._usage(chunk))
        self._bound.add(parts, held=self._held)
        return parts

    def finish(self) -> list[StreamPart]:
        """What was held back in case that more would come.

        Raises:
            LLMStreamError: a tool call never got its name.
        """
        if not all(call.named for call in self._calls):
            raise _malformed("a tool call has no name")
        return list(self._seen(self._tags.finish()))

    def _choice(self, choice: Mapping[str, object]) -> Iterator[StreamPart]:
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            yield from _thoughts(delta)
            for part in _content(delta.get("content")):
                if isinstance(part, ThinkDelta):
                    yield part
                else:
                    yield from self._seen(self._tags.feed(part.text))
            if isinstance(refusal := delta.get("refusal"), str) and refusal:
                yield from self._seen(self._tags.finish())
                yield from self._seen(iter((TextDelta(refusal),)))
            for piece in _objects(delta.get("tool_calls")):
                yield from self._tool_call(piece)
            if isinstance(function := delta.get("function_call"), Mapping):
                yield from self._tool_call({"index": 0, "function": function})
        if reason := choice.get("finish_reason"):
            yield from self._seen(self._tags.finish())
            self.ending = _ENDINGS.get(str(reason), "stop")
            if self.ending in FINISH_REASONS:
                yield ResponseInfo(finish_reason=FINISH_REASONS[self.ending])

    def _seen(self, parts: Iterator[TextDelta | ThinkDelta]) -> Iterator[TextDelta | ThinkDelta]:
        for part in parts:
            if isinstance(part, TextDelta) and not part.text.isspace():
                self.has_content = True
            yield part

    def _tool_call(self, piece: Mapping[str, object]) -> Iterator[StreamPart]:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        name = _word(function.get("name"))
        call_id = _word(piece.get("id"))
        arguments = _arguments(function.get("arguments"))
        slot = self._slot(piece.get("index"), call_id, name)
        call = self._calls[slot]
        call.id = call.id or call_id
        if call.named:
            if arguments:
                yield ToolCallDelta(slot, arguments=arguments)
        elif name:
            call.named = self.has_content = True
            yield ToolCallDelta(slot, id=call.id, name=name, arguments=call.held + arguments)
        else:
            call.held += arguments
            self._held += len(arguments)

    def _slot(self, index: object, call_id: str | None, name: str | None) -> int:
        """The place of the call that a piece belongs to; opens a new one where it must."""
        slot: int | None = None
        if isinstance(index, int):
            slot = self._slots.get(index)
            # Some endpoints give every parallel call the same index: another id tells them apart.
            if (
                slot is not None
                and name
                and call_id
                and self._calls[slot].id not in (None, call_id)
            ):
                slot = None
        elif call_id:
            slot = next((i for i, call in enumerate(self._calls) if call.id == call_id), None)
        elif not name and self._calls:
            slot = len(self._calls) - 1
        if slot is None:
            if not name and not call_id:
                raise _malformed("a piece of a tool call came before its beginning")
            slot = len(self._calls)
            self._calls.append(_Call(call_id, named=False))
        if isinstance(index, int):
            self._slots[index] = slot
        return slot

    def _usage(self, chunk: Mapping[str, object]) -> Iterator[TokenUsage]:
        usage = chunk.get("usage") or _object(chunk.get("x_groq")).get("usage")
        if isinstance(usage, Mapping) and usage:
            details = _object(usage.get("prompt_tokens_details"))
            yield TokenUsage(
                self._model,
                input_tokens=_count(usage.get("prompt_tokens")),
                output_tokens=_count(usage.get("completion_tokens")),
                # DeepSeek has a name of its own.
                cached_input_tokens=_count(details.get("cached_tokens"))
                or _count(usage.get("prompt_cache_hit_tokens")),
            )


def _thoughts(delta: Mapping[str, object]) -> Iterator[StreamPart]:
    """Reasoning, under the first of the names that is used (some endpoints use two at once)."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := delta.get(name), str) and text:
            yield ThinkDelta(text)
            return
    for detail in _objects(delta.get("reasoning_details")):
        text = detail.get("text") or detail.get("summary")
        if isinstance(text, str) and text:
            yield ThinkDelta(text)


def _content(content: object) -> Iterator[TextDelta | ThinkDelta]:
    if isinstance(content, str):
        if content:
            yield TextDelta(content)
        return
    for piece in _objects(content):
        # Pieces of other types (references, audio) hold no words of the answer.
        if piece.get("type") == "thinking":
            if text := _joined(piece.get("thinking")):
                yield ThinkDelta(text)
        elif (text := _joined(piece.get("text"))) and piece.get("type") in ("text", None):
            yield TextDelta(text)


def _joined(value: object) -> str:
    if isinstance(value, str):
        return value
    return "".join(_joined(piece.get("text")) for piece in _objects(value))


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _arguments(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _malformed(detail: str) -> LLMStreamError:
    return LLMStreamError(
        detail, advice="The endpoint does not follow the streaming format; try again."
    )
