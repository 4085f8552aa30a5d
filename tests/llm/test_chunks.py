"""What providers really stream, piece by piece. A unit test, as the oddities are one line each."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import (
    MessageAssembler,
    StreamPart,
    ThinkDelta,
    TokenUsage,
)
from service.domain.errors import LLMStreamError
from service.llm.openai.openai_chunks import ChunkReader


def read(*deltas: dict[str, Any]) -> list[StreamPart]:
    reader = ChunkReader("m")
    parts = [p for delta in deltas for p in reader.read({"choices": [{"delta": delta}]})]
    reader.finish()
    return parts


def assembled(*deltas: dict[str, Any]) -> Message:
    assembler = MessageAssembler()
    for part in read(*deltas):
        assembler.add(part)
    return assembler.message()


def calls(*pieces: dict[str, Any]) -> list[tuple[str, str, str]]:
    message = assembled(*({"tool_calls": [piece]} for piece in pieces))
    return [(call.id, call.name, call.arguments) for call in message.tool_calls]


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, args: Any = ""
) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": args}}


def test_empty_and_missing_ids_after_the_first_piece_belong_to_the_same_call() -> None:
    assert calls(piece(0, "a", "f", "{"), piece(0, "", None, '"x"'), piece(0, None, "", ":1}")) == [
        ("a", "f", '{"x":1}')
    ]


def test_calls_without_an_index_are_told_apart_by_id_or_name() -> None:
    assert calls(
        piece(None, "a", "f", "{"), piece(None, None, None, "}"), piece(None, "b", "g")
    ) == [
        ("a", "f", "{}"),
        ("b", "g", "{}"),
    ]


def test_an_index_that_counts_from_one_is_put_up_with() -> None:
    assert [part.index for part in read({"tool_calls": [piece(1, "a", "f")]})] == [0]  # type: ignore[union-attr]


def test_parallel_calls_that_all_say_index_zero_are_told_apart_by_id() -> None:
    assert calls(piece(0, "a", "f", "{}"), piece(0, "b", "f", "{}")) == [
        ("a", "f", "{}"),
        ("b", "f", "{}"),
    ]


def test_interleaved_calls_do_not_mix() -> None:
    assert calls(
        piece(0, "a", "f", '{"x":'),
        piece(1, "b", "g", "{"),
        piece(0, args="1}"),
        piece(1, args="}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_arguments_that_come_before_the_name_wait_for_it() -> None:
    assert calls(piece(0, "a", None, '{"x":'), piece(0, None, "f", "1}")) == [("a", "f", '{"x":1}')]


def test_arguments_given_as_an_object_become_json() -> None:
    assert calls(piece(0, "a", "f", {"x": "你"})) == [("a", "f", '{"x": "你"}')]


def test_a_piece_of_a_call_that_never_began_is_an_error() -> None:
    with pytest.raises(LLMStreamError):
        read({"tool_calls": [piece(0, args="{}")]})


def test_a_call_that_never_gets_its_name_is_an_error() -> None:
    with pytest.raises(LLMStreamError):
        read({"tool_calls": [piece(0, "a", None, "{}")]})


def test_content_in_typed_pieces_is_words_and_reasoning() -> None:
    message = assembled(
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"content": [{"type": "text", "text": "Hi"}, {"type": "reference", "text": "no"}]},
    )
    assert (message.reasoning, message.text) == ("hm", "Hi")


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
    ],
)
def test_reasoning_under_any_name_is_read_once(delta: dict[str, Any]) -> None:
    assert read(delta) == [ThinkDelta("hm")]


def test_every_report_of_usage_is_passed_on_and_empty_ones_are_not() -> None:
    reader = ChunkReader("m")
    parts: list[StreamPart] = []
    for usage in (None, {}, {"prompt_tokens": 1, "completion_tokens": None}, {"prompt_tokens": 2}):
        parts += reader.read({"choices": None, "usage": usage})
    assert parts == [TokenUsage("m", 1, 0), TokenUsage("m", 2, 0)]
