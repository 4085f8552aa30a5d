"""Expanding: what stood around one segment, or around many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.anchors import AnchorRef, ExpandedWindow
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.history.state import RunLoopState
from service.domain.run_loops import Iteration, RunLoop
from service.memory.ledger.segmenter import segment
from service.memory.long_term import LongTermMemory
from tests.support.memory.remembering import NOON, remembering, run_loop, tool_turn

pytestmark = pytest.mark.anyio

TALK = run_loop("talk", *((f"question {n}", f"answer {n}") for n in range(10)))
WORK = run_loop("work", tool_turn("look", "find", "{}", "found", "done"), ("thanks", "welcome"))


def refs(*texts: str) -> list[AnchorRef]:
    return [AnchorRef.parse(text) for text in texts]


def shown(window: ExpandedWindow) -> str:
    """The first and last segment of a window."""
    return f"{window.segments[0].anchor}-{window.segments[-1].anchor}"


def focus(window: ExpandedWindow) -> list[str]:
    return [piece.anchor.text for piece in window.focus]


class Live:
    """Run loops as they are now: some open, some ended a moment ago."""

    def __init__(self, *ended: RunLoop, states: Sequence[RunLoopState] = ()) -> None:
        self.ended = {loop.id: loop for loop in ended}
        self.states = states
        self.loaded: list[str] = []

    def open_states(self, owner: str) -> Sequence[RunLoopState]:
        return [state for state in self.states if state.owner == owner]

    async def remember_now(self, run_loop_id: str) -> None:
        """There is nothing more to be remembered."""

    async def load(self, run_loop_id: str) -> RunLoop | None:
        self.loaded.append(run_loop_id)
        return self.ended.get(run_loop_id)


def at_rest(loop: RunLoop) -> RunLoopState:
    return RunLoopState(
        id=loop.id,
        owner=loop.owner,
        goal=loop.goal,
        status="idle",
        created_at=loop.created_at,
        updated_at=loop.created_at,
        last_seq=1,
        predecessor_id=loop.predecessor_id,
        iteration=loop.iterations[-1],
    )


async def test_windows_that_overlap_or_touch_are_one(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, TALK) as memory:
        overlapping = await memory.expand_many(
            refs("talk:1.0", "talk:2.0"), owner="me", before=1, after=2
        )
        assert [shown(window) for window in overlapping] == ["talk:0.1-talk:3.0"]
        assert focus(overlapping[0]) == ["talk:1.0", "talk:2.0"]
        touching = await memory.expand_many(
            refs("talk:1.0", "talk:2.0"), owner="me", before=0, after=1
        )
        assert [shown(window) for window in touching] == ["talk:1.0-talk:2.1"]
        apart = await memory.expand_many(
            refs("talk:1.0", "talk:2.0"), owner="me", before=0, after=0
        )
        assert [shown(window) for window in apart] == ["talk:1.0-talk:1.0", "talk:2.0-talk:2.0"]


async def test_windows_come_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, TALK, WORK) as memory:
        asked = refs("talk:8.0", "work:0.0", "talk:1.1", "talk:8.1", "talk:8.0")
        windows = await memory.expand_many(asked, owner="me", before=0, after=0)
        assert [focus(window) for window in windows] == [
            ["talk:8.0", "talk:8.1"],
            ["work:0.0"],
            ["talk:1.1"],
        ]


async def test_iterations_are_given_whole(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, WORK, TALK) as memory:
        own = await memory.expand(
            AnchorRef("work", 0, 2), owner="me", before=0, after=0, unit="iterations"
        )
        assert [piece.content for piece in (*own.before, own.focus, *own.after)] == [
            "look",
            "find {}",
            "found",
            "done",
        ]
        beside = await memory.expand(
            AnchorRef("talk", 4, 1), owner="me", before=1, after=2, unit="iterations"
        )
        assert beside.before[0].anchor.text == "talk:3.0"
        assert beside.after[-1].anchor.text == "talk:6.1"
        assert len(beside.before) + len(beside.after) == 7


async def test_tokens_are_spent_on_all_windows_together_nearest_first(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, TALK) as memory:
        budget = 2 * (estimate_tokens("question 1") + estimate_tokens("answer 1"))
        asked = refs("talk:2.0", "talk:7.0")
        windows = await memory.expand_many(asked, owner="me", max_tokens=budget)
        assert [shown(window) for window in windows] == ["talk:2.0-talk:2.1", "talk:7.0-talk:7.1"]
        bare = await memory.expand_many(asked, owner="me", max_tokens=1)
        assert [shown(window) for window in bare] == ["talk:2.0-talk:2.0", "talk:7.0-talk:7.0"]


async def test_what_two_windows_share_is_paid_once(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, TALK) as memory:
        budget = 2 * estimate_tokens("question 1") + estimate_tokens("answer 1")
        (window,) = await memory.expand_many(
            refs("talk:2.0", "talk:2.1"), owner="me", before=0, after=2, max_tokens=budget
        )
        assert shown(window) == "talk:2.0-talk:3.0"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    asked=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=6),
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    unit=st.sampled_from(["segments", "iterations"]),
    max_tokens=st.none() | st.integers(1, 60),
)
def test_windows_are_stretches_without_gaps_that_hold_what_was_asked_for(
    tmp_path_factory: pytest.TempPathFactory,
    asked: list[tuple[int, int]],
    before: int,
    after: int,
    unit: str,
    max_tokens: int | None,
) -> None:
    refs_asked_for = [AnchorRef("talk", *place) for place in asked]

    async def work() -> list[ExpandedWindow]:
        folder = tmp_path_factory.mktemp("memory")
        async with remembering(folder, None, TALK) as memory:
            return await memory.expand_many(
                refs_asked_for,
                owner="me",
                before=before,
                after=after,
                unit="iterations" if unit == "iterations" else "segments",
                max_tokens=max_tokens,
            )

    windows = anyio.run(work)
    order = [piece.anchor.ref for piece in segment(TALK)]
    places = [[order.index(piece.anchor.ref) for piece in window.segments] for window in windows]
    for place in places:
        assert place == list(range(place[0], place[-1] + 1)), "no gap"
    given_places = [at for place in places for at in place]
    assert len(given_places) == len(set(given_places)), "no segment twice"
    for one, other in pairwise(sorted(places)):
        assert one[-1] + 1 < other[0], "what touches is one window"
    assert {ref for window in windows for ref in refs(*focus(window))} == set(refs_asked_for)
    if max_tokens is not None:
        focuses = {ref: piece for w in windows for piece in w.focus for ref in [piece.anchor.ref]}
        least = sum(estimate_tokens(piece.content) for piece in focuses.values())
        spent = sum(estimate_tokens(piece.content) for w in windows for piece in w.segments)
        assert spent <= max(least, max_tokens)


async def test_one_anchor_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, TALK) as memory:
        for bad in ("talk:10.0", "talk:0.2", "nowhere:0.0"):
            with pytest.raises(NotFoundError, match=bad):
                await memory.expand_many(refs("talk:0.0", bad), owner="me")
        with pytest.raises(NotFoundError):
            await memory.expand_many(refs("talk:0.0"), owner="eve")
        with pytest.raises(InvalidInputError, match="no anchor"):
            await memory.expand_many([], owner="me")
        with pytest.raises(InvalidInputError, match="iterations"):
            await memory.expand_many(refs("talk:0.0"), owner="me", before=-1, unit="iterations")


# --- newer than the ledger


async def test_an_open_loop_is_read_as_it_is_now(tmp_path: Path) -> None:
    open_loop = run_loop("talk", ("question 0", "answer 0"), status="idle")
    grown = run_loop("talk", ("question 0", "an answer that was bettered since"), status="idle")
    async with remembering(tmp_path, None, open_loop, live=Live(states=[at_rest(grown)])) as memory:
        context = await memory.expand(AnchorRef("talk", 0, 0), owner="me")
        assert [piece.content for piece in context.after] == ["an answer that was bettered since"]


async def test_words_that_the_ledger_lacks_come_from_the_journal_once_a_loop_has_ended(
    tmp_path: Path,
) -> None:
    live = Live(WORK)
    async with remembering(tmp_path, None, TALK, live=live) as memory:
        windows = await memory.expand_many(
            refs("work:1.1", "talk:0.0"), owner="me", before=1, after=0
        )
        assert [shown(window) for window in windows] == ["work:1.0-work:1.1", "talk:0.0-talk:0.0"]
        assert live.loaded == ["work"], "what the ledger has is not read from the journal"
        for owner, anchor in (("eve", "work:1.1"), ("me", "work:7.0")):
            with pytest.raises(NotFoundError):
                await memory.expand_many(refs(anchor), owner=owner)


async def test_the_ledger_and_the_newest_state_give_the_same_windows(tmp_path: Path) -> None:
    loop = run_loop(
        "long",
        ("", ""),
        *((f"question {n} " * 200, "" if n % 2 else "答案。" * 300) for n in range(6)),
        Iteration(timestamp=NOON),
        ("last", "words"),
    )
    for unit in ("segments", "iterations"):
        windows: list[list[ExpandedWindow]] = []
        for folder, archived in ((tmp_path / f"{unit}1", True), (tmp_path / f"{unit}2", False)):
            folder.mkdir()
            loops = [loop] if archived else []
            async with remembering(folder, None, *loops, live=Live(loop)) as memory:
                windows.append(await _three_windows(memory, loop, unit == "iterations"))
        assert windows[0] == windows[1]


async def _three_windows(
    memory: LongTermMemory, loop: RunLoop, whole: bool
) -> list[ExpandedWindow]:
    pieces = segment(loop)
    asked = [pieces[at].anchor.ref for at in (0, len(pieces) // 2, -1)]
    return await memory.expand_many(
        asked, owner="me", before=2, after=2, unit="iterations" if whole else "segments"
    )


# --- what came before and after


async def test_a_loop_names_the_one_it_took_up_and_those_that_took_it_up(tmp_path: Path) -> None:
    second = run_loop("second", ("again", "yes")).model_copy(update={"predecessor_id": "talk"})
    third = run_loop("third", ("and again", "no")).model_copy(
        update={"predecessor_id": "talk", "status": "idle"}
    )
    live = Live(states=[at_rest(third)])
    async with remembering(tmp_path, None, TALK, second, live=live) as memory:
        first = await memory.expand(AnchorRef("talk", 0, 0), owner="me")
        assert first.successor_ids == ("second", "third"), "also one that is open still"
        (window,) = await memory.expand_many(refs("second:0.0"), owner="me")
        assert window.run_loop.predecessor_id == "talk"
        assert window.successor_ids == ()
