"""Facts that a person asked to have remembered: which holds, what it corrects, and how it goes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.tool_definitions import REMEMBER
from service.domain.run_loops import Iteration, RunLoop
from service.memory.protocol import SearchFilters
from tests.support.memory.remembering import NOON, WordEmbedder, remembering, run_loop

pytestmark = pytest.mark.anyio


def telling(
    loop_id: str,
    fact: str,
    *,
    replaces: str | None = None,
    day: int = 0,
    failed: bool = False,
    said: str | None = None,
) -> RunLoop:
    at = NOON + timedelta(days=day)
    arguments = {"fact": fact} | ({} if replaces is None else {"replaces": replaces})
    turn = Iteration(
        user_message=said or f"Remember: {fact}",
        tool_calls=(
            ToolCall(id="c", name=REMEMBER, arguments=json.dumps(arguments, ensure_ascii=False)),
        ),
        tool_results=(ToolResult(id="c", content="Remembered.", is_error=failed),),
        response="Noted.",
        timestamp=at,
    )
    return run_loop(loop_id, turn, at=at)


LI = telling("old", "My dentist is Dr. Li")
WANG = telling("new", "My dentist is Dr. Wang", replaces="old:0.1", day=3)


@pytest.mark.parametrize("embedder", [None, WordEmbedder()])
@pytest.mark.parametrize("order", [(LI, WANG), (WANG, LI)])
async def test_the_newest_fact_stands_first_and_the_old_one_is_marked(
    tmp_path: Path, embedder: WordEmbedder | None, order: tuple[RunLoop, ...]
) -> None:
    async with remembering(tmp_path, embedder, *order) as memory:
        # Only the old one has the word that is looked for.
        result = await memory.search("is dentist li", owner="me")
        refs = [str(hit.anchor) for hit in result.hits]
        assert refs.index("new:0.1") < refs.index("old:0.1")
        by = {str(hit.anchor): hit.superseded_by and str(hit.superseded_by) for hit in result.hits}
        assert by["old:0.0"] == by["old:0.1"] == "new:0.1"
        assert by["new:0.0"] is by["new:0.1"] is None
        [window] = await memory.expand_many([AnchorRef("old", 0, 1)], owner="me")
        assert [bool(each.superseded_by) for each in window.segments] == [True, True, False, False]
        assert window.focus[0] in window.segments
        new, old = await memory.facts(owner="me")
        assert (new.text, new.replaces, new.superseded_by) == (
            "My dentist is Dr. Wang",
            "old:0.1",
            None,
        )
        assert str(old.superseded_by) == "new:0.1"


async def test_a_newer_fact_that_was_not_found_is_put_before_the_old_one(tmp_path: Path) -> None:
    moved = telling("new", "Ada wohnt in Porto", replaces="old:0.1", day=1, said="?")
    async with remembering(tmp_path, None, telling("old", "Lena lives abroad"), moved) as memory:
        result = await memory.search("Lena abroad", owner="me", limit=1)
        assert [str(hit.anchor) for hit in result.hits] == ["new:0.1"]
        assert result.hits[0].related
        narrowed = SearchFilters(run_loop_id="old")
        result = await memory.search("Lena abroad", owner="me", limit=1, filters=narrowed)
        assert [hit.anchor.run_loop_id for hit in result.hits] == ["old"]
        result = await memory.search("Lena abroad", owner="me", limit=9, max_tokens=1)
        assert len(result.hits) == 1


async def test_a_chain_of_corrections_leads_to_its_end_and_a_circle_harms_nobody(
    tmp_path: Path,
) -> None:
    loops = [
        telling("a", "The door code is 1111"),
        telling("b", "The door code is 2222", replaces="a:0.1", day=1),
        telling("c", "The door code is 3333", replaces="b:0.1", day=2),
        telling("x", "Tea is at four", replaces="y:0.1"),
        telling("y", "Tea is at five", replaces="x:0.1", day=1),
    ]
    async with remembering(tmp_path, None, *loops) as memory:
        facts = {each.anchor.run_loop_id: each for each in await memory.facts(owner="me")}
        assert str(facts["a"].superseded_by) == str(facts["b"].superseded_by) == "c:0.1"
        assert facts["c"].superseded_by is None
        assert (await memory.search("tea", owner="me")).hits


async def test_chinese_facts_and_what_was_never_kept_as_a_fact_can_be_corrected(
    tmp_path: Path,
) -> None:
    told = run_loop("said", ("我的牙医是李大夫", "好的"))
    kept = telling("new", "我的牙医是王大夫", replaces="said:0.0", day=1)
    async with remembering(tmp_path, None, told, kept) as memory:
        result = await memory.search("我的牙医是谁", owner="me")
        refs = [str(hit.anchor) for hit in result.hits]
        assert refs.index("new:0.1") < refs.index("said:0.0")
        assert [str(each.anchor) for each in await memory.facts(owner="me")] == ["new:0.1"]


async def test_a_call_that_failed_or_is_no_fact_keeps_nothing_and_owners_do_not_mix(
    tmp_path: Path,
) -> None:
    odd = [
        run_loop(
            f"odd{number}",
            Iteration(
                user_message="hm",
                tool_calls=(ToolCall(id="c", name=REMEMBER, arguments=arguments),),
                tool_results=(ToolResult(id="c", content="ok"),),
                timestamp=NOON,
            ),
        )
        for number, arguments in enumerate(('{"fact": 3}', "[]", '"x"', "{", '{"fact": " "}'))
    ]
    loops = [*odd, telling("failed", "It failed", failed=True), LI]
    foreign = telling("theirs", "Mine now", replaces="old:0.1", day=1)
    foreign = foreign.model_copy(update={"owner": "you"})
    async with remembering(tmp_path, None, *loops, foreign) as memory:
        [fact] = await memory.facts(owner="me")
        assert fact.text == "My dentist is Dr. Li"
        assert fact.superseded_by is None
        assert await memory.facts(owner="nobody") == []


async def test_a_correction_that_is_forgotten_lets_the_older_fact_hold_again(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, None, LI, WANG) as memory:
        await memory.forget("me", ["new"], [])
        [fact] = await memory.facts(owner="me")
        assert fact.text == "My dentist is Dr. Li"
        assert fact.superseded_by is None
        hits = (await memory.search("dentist", owner="me")).hits
        assert all(hit.superseded_by is None for hit in hits)
        await memory.forget("me", ["old"], [])
        assert await memory.facts(owner="me") == []


async def test_the_fact_holds_where_what_it_corrects_is_forgotten(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, LI, WANG) as memory:
        await memory.forget("me", ["old"], [])
        [fact] = await memory.facts(owner="me")
        assert fact.text == "My dentist is Dr. Wang"
        assert (await memory.search("dentist", owner="me")).hits[0].superseded_by is None
