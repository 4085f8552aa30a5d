"""Streamed pieces merge into the same message, however they were cut and interleaved."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.conversation.messages import TextPart, ThinkPart
from service.domain.conversation.stream_parts import (
    MessageAssembler,
    TextDelta,
    ThinkDelta,
    ToolCallDelta,
)
from service.domain.errors import LLMStreamError


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_text_is_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    assembler = MessageAssembler()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(places):
        assembler.add(TextDelta(text[start:end]))
    assert assembler.message().text == text
    assert len(assembler.message().content) <= 1


@given(st.permutations([0] * 5 + [1] * 5 + [2] * 5))
def test_interleaved_calls_do_not_corrupt_each_other(order: list[int]) -> None:
    assembler = MessageAssembler()
    for index in range(3):
        assembler.add(ToolCallDelta(index=index, id=f"c{index}", name=f"tool{index}"))
    written = {0: "", 1: "", 2: ""}
    for number, index in enumerate(order):
        piece = f"{index}:{number};"
        written[index] += piece
        assembler.add(ToolCallDelta(index=index, arguments=piece))
    calls = assembler.message().tool_calls
    assert [call.arguments for call in calls] == [written[0], written[1], written[2]]


def test_a_piece_of_a_call_that_was_never_named_is_an_error() -> None:
    with pytest.raises(LLMStreamError, match="tool call 3"):
        MessageAssembler().add(ToolCallDelta(index=3, arguments="{}"))


def test_calls_without_an_id_or_with_the_same_id_get_ids_of_their_own() -> None:
    assembler = MessageAssembler()
    for index, given_id in enumerate((None, "", "x", "x")):
        assembler.add(ToolCallDelta(index=index, id=given_id, name="now"))
    ids = [call.id for call in assembler.message().tool_calls]
    assert len(set(ids)) == 4
    assert all(ids)


def test_thinking_and_text_stay_apart_and_in_order() -> None:
    assembler = MessageAssembler()
    for part in (
        ThinkDelta("hm"),
        ThinkDelta("m", signature="sig"),
        ThinkDelta("again"),
        TextDelta("a"),
        TextDelta("b"),
    ):
        assembler.add(part)
    assert assembler.message().content == (
        ThinkPart(think="hmm", signature="sig"),
        ThinkPart(think="again"),
        TextPart(text="ab"),
    )
