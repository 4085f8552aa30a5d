"""Streams that were recorded at real providers, where there is a folder of them.

``RONDO_STREAMS_DIR`` names it. Its ``index.json`` tells what a plain assembler makes of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.stream_parts import TokenUsage
from service.llm.anthropic.anthropic_messages import AnthropicModel
from service.llm.openai.openai_compatible import OpenAIModel
from tests.support.llm.replay import (
    Outcome,
    Replay,
    in_equal_pieces,
    in_two,
    one_by_one,
    outcome,
    with_other_ends_of_line,
)

FOLDER = Path(os.environ.get("RONDO_STREAMS_DIR", ""))
RECORDED = "RONDO_STREAMS_DIR" in os.environ

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not RECORDED, reason="RONDO_STREAMS_DIR names no folder of streams"),
]

INDEX: list[dict[str, Any]] = (
    json.loads((FOLDER / "index.json").read_text("utf-8")) if RECORDED else []
)
OPENAI = [entry for entry in INDEX if entry["assembled"] is not None]
ANTHROPIC = [entry for entry in INDEX if entry["assembled"] is None]
_SMALL = 8_000
"""Bytes of a stream that is cut in two at every place, which takes time by the square."""
_PIECE = 64

Player = tuple[OpenAIModel | AnthropicModel, Replay]


@pytest.fixture(scope="module")
async def openai() -> AsyncIterator[Player]:
    replay = Replay()
    llm = OpenAIModel(
        model="m", base_url="http://127.0.0.1/v1", max_tokens=100_000, transport=replay
    )
    yield llm, replay
    await llm.aclose()


@pytest.fixture(scope="module")
async def anthropic() -> AsyncIterator[Player]:
    replay = Replay()
    llm = AnthropicModel(model="m", base_url="http://127.0.0.1", transport=replay)
    yield llm, replay
    await llm.aclose()


def recorded(entry: dict[str, Any]) -> bytes:
    file: str = entry["file"]
    data = (FOLDER / file).read_bytes()
    if file.endswith(".chunks.txt"):  # one chunk a line, without the stream around it
        return b"".join(b"data: " + line + b"\n\n" for line in data.splitlines() if line)
    return data


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Every place is cut, one way or the other; and the same for other ends of line."""
    if len(data) <= _SMALL:
        yield from in_two(data)
    yield from in_equal_pieces(data, _PIECE)
    for variant in with_other_ends_of_line(data):
        yield [variant]
        yield one_by_one(variant)


@pytest.mark.slow
@pytest.mark.parametrize("entry", OPENAI, ids=[entry["file"] for entry in OPENAI])
async def test_a_recorded_stream_comes_to_the_same_wherever_it_is_cut(
    entry: dict[str, Any], openai: Player
) -> None:
    data = recorded(entry)
    whole = await outcome(*openai, [data])
    check(whole, entry)
    for pieces in cuts(data):
        assert await outcome(*openai, pieces) == whole


def check(outcome: Outcome, entry: dict[str, Any]) -> None:
    """Compare with the index, which knows nothing of inline reasoning."""
    want = entry["assembled"]
    if error := want.get("error"):
        assert outcome.error.startswith("llm-stream (retryable: True)")
        assert error["message"][:200] in outcome.error
        return
    assert outcome.error == ""
    text = "".join(words for kind, words, _ in outcome.content if kind == "text")
    think = "".join(words for kind, words, _ in outcome.content if kind == "think")
    if "inline_think" in entry["quirks"]:
        assert text
        assert "<think>" not in text + think
        assert f"<think>{think}".startswith(want["text_head"])
        # The index counts the tags, and the two line breaks after them.
        assert len(f"<think>{think}</think>\n\n{text}") == want["text_len"]
    elif "text" in want:
        assert text == want["text"]
    else:
        assert (len(text), len(think)) == (want["text_len"], want["reasoning_len"])
        assert text.startswith(want["text_head"])
    assert [
        {"id": call_id, "name": name, "arguments": arguments}
        for call_id, name, arguments in outcome.calls
    ] == want["tool_calls"]
    if (total := want.get("usage_total")) is not None:
        assert outcome.usage is not None
        assert outcome.usage.input_tokens + outcome.usage.output_tokens == total


@pytest.mark.slow
@pytest.mark.parametrize("entry", ANTHROPIC, ids=[entry["file"] for entry in ANTHROPIC])
async def test_a_recorded_stream_of_anthropic_comes_to_the_same_wherever_it_is_cut(
    entry: dict[str, Any], anthropic: Player
) -> None:
    data = recorded(entry)
    whole = await outcome(*anthropic, [data])
    assert whole.content == (("text", "I'll add and multiply the numbers 2 and 3 for you.", None),)
    assert [call[1:] for call in whole.calls] == [
        ("add", '{"a": 2, "b": 3}'),
        ("multiply", '{"a": 2, "b": 3}'),
    ]
    assert whole.usage == TokenUsage("m", 502, 137)
    for pieces in cuts(data):
        assert await outcome(*anthropic, pieces) == whole
