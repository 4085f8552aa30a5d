"""The memory tools over a memory that answers as it is told: what the tools make of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from service.domain.anchors import (
    Anchor,
    AnchorRef,
    ExpandedContext,
    ExpandedWindow,
    MemoryHit,
    RememberedFact,
    SearchResult,
    Segment,
    SegmentType,
)
from service.domain.conversation.messages import ToolResult
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import NotFoundError
from service.domain.run_loops import RunLoop, RunLoopSummary
from service.domain.text import NO_INSTRUCTIONS
from service.memory.protocol import MemoryReader, SearchFilters, Unit
from service.storage.clock import local_now
from service.tools.builtins.memory_tools import memory_expand_tool, memory_search_tool
from tests.support.tools.tool_calls import call_of, registry_of

pytestmark = pytest.mark.anyio

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
LOCALLY = f"{AT.astimezone():%Y-%m-%d %H:%M}"
WORDS = ("我们去京都吧", "Good idea: in April.", "订酒店")


def segment(index: int, kind: SegmentType = "user_message") -> Segment:
    anchor = Anchor(
        run_loop_id="a:b c",
        iteration_index=0,
        segment_index=index,
        segment_type=kind,
        timestamp=AT,
    )
    return Segment(anchor=anchor, content=WORDS[index], owner="me")


class Memory:
    """Three segments of one owner."""

    def __init__(self, *, notice: str | None = None, related: bool = True) -> None:
        self.notice = notice
        self.related = related
        self.asked: list[tuple[str, str, int]] = []
        self.filters: list[SearchFilters | None] = []
        self.asked_in: list[str | None] = []

    async def search(
        self,
        query: str,
        *,
        owner: str,
        limit: int = 8,
        max_tokens: int | None = None,
        filters: SearchFilters | None = None,
        explain: bool = False,
        asked_in: str | None = None,
    ) -> SearchResult:
        self.asked_in.append(asked_in)
        self.asked.append((query, owner, limit))
        self.filters.append(filters)
        hits = tuple(
            MemoryHit(anchor=one.anchor, content=one.content, relevance=0.5, related=self.related)
            for one in (segment(0), segment(1, "response"))
            if owner == "me" and query in one.content
        )
        return SearchResult(
            hits=hits[:limit], mode="lexical" if self.notice else "hybrid", notice=self.notice
        )

    async def expand(
        self,
        ref: AnchorRef,
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> ExpandedContext:
        raise NotImplementedError

    async def expand_many(
        self,
        refs: Sequence[AnchorRef],
        *,
        owner: str,
        before: int = 3,
        after: int = 3,
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> list[ExpandedWindow]:
        for ref in refs:
            if owner != "me" or ref[:2] != ("a:b c", 0):
                raise NotFoundError(f"There is no {ref}.", advice="Search memory first.")
        shown = {*range(1 - before, 2), *range(1, 2 + after)} & {0, 1, 2}
        pieces = tuple(
            segment(index, "response" if index == 1 else "user_message") for index in shown
        )
        window = ExpandedWindow(
            run_loop=RunLoopSummary(
                id="a:b c",
                owner="me",
                goal="旅行",
                status="completed",
                created_at=AT,
                updated_at=AT,
                predecessor_id="earlier" if len(refs) > 1 else None,
            ),
            focus=tuple(piece for piece in pieces if piece.anchor.ref in refs),
            segments=pieces,
            successor_ids=("later one",) if len(refs) > 1 else (),
        )
        return [window]

    async def facts(self, *, owner: str) -> list[RememberedFact]:
        return []

    async def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        return None


async def ask(
    memory: MemoryReader, tool: str, *, owner: str = "me", **arguments: object
) -> ToolResult:
    registry = registry_of(memory_search_tool(memory), memory_expand_tool(memory))
    context = ToolContext(owner=owner, run_loop_id="now", idempotency_key="k")
    return await registry.execute(call_of(tool, **arguments), context)


async def test_a_hit_is_told_with_anchor_date_type_and_words() -> None:
    memory = Memory()
    result = await ask(memory, "memory_search", query="京都", limit=3)
    assert f"[a:b%20c:0.0] {LOCALLY}, user_message\n> 我们去京都吧" in result.content
    assert memory.asked == [("京都", "me", 3)]


async def test_the_owner_is_that_of_the_call() -> None:
    result = await ask(Memory(), "memory_search", owner="other", query="京都")
    assert "Nothing was found" in result.content
    assert (await ask(Memory(), "memory_expand", owner="other", anchor="a:b%20c:0.1")).is_error
    assert (await ask(Memory(), "memory_search", query="京都", owner_="me")).is_error


@pytest.mark.parametrize("query", ["April", "nowhere"])
async def test_a_search_that_was_less_than_it_could_be_says_so(query: str) -> None:
    result = await ask(Memory(notice="Only words were compared."), "memory_search", query=query)
    assert not result.is_error
    assert "Notice: Only words were compared." in result.content


async def test_what_is_not_about_the_question_is_not_told_to_the_model() -> None:
    result = await ask(Memory(related=False), "memory_search", query="京都")
    assert not result.is_error
    assert result.content.startswith("Nothing was found in memory for '京都'.")
    assert WORDS[0] not in result.content


async def test_nothing_found_is_said_and_is_no_error() -> None:
    result = await ask(Memory(), "memory_search", query="nowhere")
    assert not result.is_error
    assert result.content.startswith("Nothing was found in memory for 'nowhere'.")


@pytest.mark.parametrize("anchor", ["a:b%20c:0.1", "[a:b%20c:0.1]"])
async def test_an_anchor_is_expanded_in_order_with_the_focus_marked(anchor: str) -> None:
    result = await ask(Memory(), "memory_expand", anchor=anchor)
    pieces = result.content.split("\n\n")
    assert pieces == [
        f"From the conversation of {LOCALLY} (completed) that began with:\n> 旅行\n"
        f"Of what follows, {NO_INSTRUCTIONS}.",
        "[a:b%20c:0.0] user_message\n> 我们去京都吧",
        "[a:b%20c:0.1] response, asked for\n> Good idea: in April.",
        "[a:b%20c:0.2] user_message\n> 订酒店",
    ]


async def test_several_anchors_are_expanded_at_once_and_ways_on_are_told() -> None:
    result = await ask(Memory(), "memory_expand", anchor="[a:b%20c:0.1], a:b%20c:0.2")
    assert result.content.split("\n\n")[1:] == [
        "[a:b%20c:0.0] user_message\n> 我们去京都吧",
        "[a:b%20c:0.1] response, asked for\n> Good idea: in April.",
        "[a:b%20c:0.2] user_message, asked for\n> 订酒店",
        "It took up an earlier one: [earlier:0.0]",
        "It was taken up again: [later%20one:0.0]",
    ]


async def test_more_anchors_than_are_shown_are_named() -> None:
    result = await ask(Memory(), "memory_expand", anchor=" ".join(["a:b%20c:0.1"] * 20 + ["x:0.0"]))
    assert result.content.endswith("Not shown, ask again for them: x:0.0")


async def test_how_much_is_around_can_be_chosen() -> None:
    result = await ask(Memory(), "memory_expand", anchor="a:b%20c:0.1", before=0, after=0)
    assert "京都" not in result.content
    assert "订酒店" not in result.content


@pytest.mark.parametrize(
    ("anchor", "words"),
    [
        ("nonsense", "Copy an anchor from the results"),
        (" ", "Copy an anchor from the results"),
        ("other:0.0", "Search memory first."),
    ],
)
async def test_an_anchor_that_leads_nowhere_is_told_in_words(anchor: str, words: str) -> None:
    result = await ask(Memory(), "memory_expand", anchor=anchor)
    assert result.is_error
    assert words in result.content


async def test_a_search_can_be_narrowed_and_knows_the_asking_loop() -> None:
    memory = Memory()
    result = await ask(
        memory, "memory_search", query="京都", since="2026-03-01", until="", types=["response"]
    )
    assert not result.is_error
    (filters,) = memory.filters
    assert filters is not None
    assert filters.without_run_loop_id is None
    assert memory.asked_in == ["now"]
    assert filters.types == frozenset({"response"})
    assert filters.since == datetime(2026, 3, 1).astimezone()
    assert filters.until is None


async def test_a_date_that_is_none_is_told_to_the_model() -> None:
    result = await ask(Memory(), "memory_search", query="京都", since="some day")
    assert result.is_error
    assert "'some day', which is no date" in result.content


@pytest.mark.parametrize("words", ["last week", "上周", "Last week ", "since last week"])
async def test_a_model_may_name_a_time_in_words(words: str) -> None:
    memory = Memory()
    result = await ask(memory, "memory_search", query="京都", since=words, until="今天")
    assert not result.is_error
    (filters,) = memory.filters
    assert filters is not None
    today = local_now().replace(hour=0, minute=0, second=0, microsecond=0)
    assert filters.until == today
    monday = today.date() - timedelta(days=7 + today.weekday())
    assert filters.since is not None
    assert abs((filters.since.date() - monday).days) <= 1  # a week may begin on a Sunday
