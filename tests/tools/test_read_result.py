from __future__ import annotations

from datetime import UTC, datetime

import pytest

from service.domain.conversation.messages import ToolResult
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.run_loops import Iteration, RunLoop
from service.tools.builtins.read_result import read_result_tool
from tests.support.tools.tool_calls import call_of, registry_of

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LONG = "".join(f"{number:05d}中" for number in range(10_000))


def loop_with(*results: tuple[str, str]) -> RunLoop:
    iterations = (
        Iteration(timestamp=NOW, tool_results=(ToolResult(id=call_id, content=content),))
        for call_id, content in results
    )
    return RunLoop(
        id="loop", goal="read", status="running", iterations=tuple(iterations), created_at=NOW
    )


async def read(
    run_loop: RunLoop | None, call_id: str, *, owner: str = "me", **more: object
) -> tuple[str, bool]:
    async def load(run_loop_id: str) -> RunLoop | None:
        assert run_loop_id == "loop"
        return run_loop

    registry = registry_of(read_result_tool(load))
    context = ToolContext(owner=owner, run_loop_id="loop", idempotency_key="key")
    result = await registry.execute(call_of("read_result", call_id=call_id, **more), context)
    assert registry.shown(result) == result.content, "a page is never cut itself"
    return result.content, result.is_error


async def test_all_pages_together_are_the_whole_result() -> None:
    start, text = 0, ""
    while True:
        page, is_error = await read(loop_with(("c1", LONG)), "c1", start=start)
        assert not is_error
        head, words, tail = page.split("\n\n")
        assert f"of {len(LONG):,}" in head
        text += words
        if "start=" not in tail:
            break
        start = int(tail.partition("start=")[2].partition(".")[0])
    assert text == LONG


async def test_ids_that_come_again_mean_the_newest_result_that_was_cut() -> None:
    loop = loop_with(("c1", "a" * 30_000), ("c1", "b" * 30_000), ("c1", "a short one"))
    page, _ = await read(loop, "c1", start=25_000)
    assert "b" * 5_000 in page
    assert "a" * 5_000 not in page


async def test_a_start_behind_the_end_is_told_what_there_is() -> None:
    words, is_error = await read(loop_with(("c1", LONG)), "c1", start=len(LONG))
    assert is_error
    assert f"{len(LONG):,} characters" in words


async def test_an_unknown_id_is_told_which_results_were_cut() -> None:
    loop = loop_with(("c1", LONG), ("c2", "short"))
    words, is_error = await read(loop, "c3")
    assert is_error
    assert words.endswith("Those that were cut: c1.")


@pytest.mark.parametrize("run_loop", [None, loop_with(("c1", LONG))])
async def test_nobody_reads_the_results_of_somebody_else(run_loop: RunLoop | None) -> None:
    words, is_error = await read(run_loop, "c1", owner="you")
    assert is_error
    assert "00001" not in words
