"""Streams as providers send them: however their bytes are cut, they come to the same.

The bytes enter at the transport, so that all of the client and of the SDK's decoder is in play.
``recordings/`` holds one small stream for each oddity, written by hand.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.stream_parts import TokenUsage
from service.llm.openai.openai_compatible import OpenAIModel
from tests.support.llm.replay import (
    Outcome,
    Replay,
    in_two,
    one_by_one,
    outcome,
    with_other_ends_of_line,
)

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parent / "recordings"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text("utf-8"))
WHOLE, BROKEN = EXPECTED["whole"], EXPECTED["broken"]


@pytest.fixture(scope="module")
async def player() -> AsyncIterator[tuple[OpenAIModel, Replay]]:
    replay = Replay()
    llm = OpenAIModel(model="m", base_url="http://127.0.0.1/v1", transport=replay)
    yield llm, replay
    await llm.aclose()


def test_every_recording_is_listed() -> None:
    assert {path.stem for path in FOLDER.glob("*.sse")} == set(WHOLE) | set(BROKEN)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
async def test_a_stream_comes_to_the_same_wherever_its_bytes_are_cut(
    name: str, player: tuple[OpenAIModel, Replay]
) -> None:
    data = (FOLDER / f"{name}.sse").read_bytes()
    want = WHOLE[name]
    usage = want["usage"]
    expected = Outcome(
        tuple((kind, words, None) for kind, words in want["content"]),
        tuple((call_id, tool, arguments) for call_id, tool, arguments in want["calls"]),
        None if usage is None else TokenUsage("m", *usage),
    )
    assert await outcome(*player, [data]) == expected
    for pieces in in_two(data):
        assert await outcome(*player, pieces) == expected, f"cut at {len(pieces[0])}"
    for variant in with_other_ends_of_line(data):
        assert await outcome(*player, one_by_one(variant)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_stream_is_an_error_that_can_be_retried_wherever_it_is_cut(
    name: str, player: tuple[OpenAIModel, Replay]
) -> None:
    data = (FOLDER / f"{name}.sse").read_bytes()
    whole = await outcome(*player, [data])
    assert whole.error.startswith("llm-stream (retryable: True)")
    assert BROKEN[name] in whole.error
    for pieces in [*in_two(data), one_by_one(data)]:
        assert await outcome(*player, pieces) == whole, f"cut at {len(pieces[0])}"


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
async def test_a_stream_that_ends_too_early_is_never_taken_for_a_whole_one(
    name: str, player: tuple[OpenAIModel, Replay]
) -> None:
    data = (FOLDER / f"{name}.sse").read_bytes()
    whole = replace(await outcome(*player, [data]), usage=None)
    for end in range(len(data)):
        result = replace(await outcome(*player, [data[:end]]), usage=None)
        assert result == whole or result.error.startswith("llm-stream (retryable: True)")
