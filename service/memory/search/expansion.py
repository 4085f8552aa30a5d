"""Expanding: what stood around segments in their run loops.

The ledger gives it; of run loops that are open, or have just ended, the newest state does, as the
ledger may not have their last words yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Protocol

import anyio.to_thread

from service.domain.anchors import AnchorRef, ExpandedContext, ExpandedWindow, Segment
from service.domain.errors import NotFoundError
from service.domain.run_loops import RunLoop, RunLoopSummary
from service.memory.ledger.protocol import Ledger
from service.memory.ledger.segmenter import segments_of
from service.memory.protocol import LiveRunLoops
from service.memory.search.windows import Reach, Side, Window, fill, merged


class _Words(Protocol):
    """The words of one run loop."""

    @property
    def summary(self) -> RunLoopSummary: ...

    def at(self, refs: Iterable[AnchorRef]) -> Mapping[AnchorRef, Segment]: ...

    def before(self, ref: AnchorRef) -> Iterator[Segment]:
        """Nearest first."""
        ...

    def after(self, ref: AnchorRef) -> Iterator[Segment]:
        """Nearest first."""
        ...


async def expand_many(
    ledger: Ledger,
    live: LiveRunLoops | None,
    refs: Sequence[AnchorRef],
    *,
    owner: str,
    reach: Reach,
    max_tokens: int | None,
) -> list[ExpandedWindow]:
    """See `MemoryReader.expand_many`.

    Raises:
        NotFoundError: this owner has no such segment.
        StorageError: the ledger or the journal cannot be read.
    """
    loops = await _newer_than_the_ledger(ledger, live, refs, owner)
    successors = _open_successors(live, owner)
    return await anyio.to_thread.run_sync(
        lambda: _Expansion(ledger, loops, successors, owner).expand(refs, reach, max_tokens)
    )


def as_context(window: ExpandedWindow) -> ExpandedContext:
    """A window around one segment, parted at it."""
    focus = window.focus[0]
    at = window.segments.index(focus)
    return ExpandedContext(
        run_loop=window.run_loop,
        focus=focus,
        before=window.segments[:at],
        after=window.segments[at + 1 :],
        successor_ids=window.successor_ids,
    )


async def _newer_than_the_ledger(
    ledger: Ledger, live: LiveRunLoops | None, refs: Sequence[AnchorRef], owner: str
) -> dict[str, RunLoop]:
    """The run loops that are open, and those of which the ledger lacks what is asked for."""
    if live is None:
        return {}
    asked = {ref.run_loop_id for ref in refs}
    loops = {state.id: state.run_loop() for state in live.open_states(owner) if state.id in asked}
    elsewhere = [ref for ref in refs if ref.run_loop_id not in loops]
    remembered = await anyio.to_thread.run_sync(lambda: ledger.segments.at(elsewhere, owner=owner))
    for run_loop_id in {ref.run_loop_id for ref in elsewhere if ref not in remembered}:
        run_loop = await live.load(run_loop_id)
        if run_loop is not None and run_loop.owner == owner:
            loops[run_loop_id] = run_loop
    return loops


def _open_successors(live: LiveRunLoops | None, owner: str) -> dict[str, list[str]]:
    """Which open loops took up which others; the ledger may not know of them yet."""
    successors: defaultdict[str, list[str]] = defaultdict(list)
    states = sorted(live.open_states(owner), key=lambda each: each.created_at) if live else ()
    for state in states:
        if state.predecessor_id is not None:
            successors[state.predecessor_id].append(state.id)
    return successors


class _Expansion:
    """One reading around segments of an owner. Blocks."""

    def __init__(
        self,
        ledger: Ledger,
        loops: Mapping[str, RunLoop],
        successors: Mapping[str, Sequence[str]],
        owner: str,
    ) -> None:
        self._ledger = ledger
        self._loops = loops
        self._successors = successors
        self._owner = owner
        self._words = cache(self._open_words)

    def expand(
        self, refs: Sequence[AnchorRef], reach: Reach, max_tokens: int | None
    ) -> list[ExpandedWindow]:
        focuses = self._focuses(refs)
        windows = {ref: self._window(focuses[ref], reach) for ref in dict.fromkeys(refs)}
        fill(list(windows.values()), max_tokens)
        by_loop: defaultdict[str, list[Window]] = defaultdict(list)
        for ref, window in windows.items():
            by_loop[ref.run_loop_id].append(window)
        asked = {ref: place for place, ref in reversed(list(enumerate(refs)))}
        groups = [group for of_one in by_loop.values() for group in merged(of_one)]
        groups.sort(key=lambda group: min(asked[each.focus.anchor.ref] for each in group))
        return [self._joined(group) for group in groups]

    def _focuses(self, refs: Sequence[AnchorRef]) -> dict[AnchorRef, Segment]:
        by_loop: defaultdict[str, list[AnchorRef]] = defaultdict(list)
        for ref in refs:
            by_loop[ref.run_loop_id].append(ref)
        focuses: dict[AnchorRef, Segment] = {}
        for run_loop_id, loop_refs in by_loop.items():
            words = self._words(run_loop_id)
            segments = words.at(loop_refs) if words else {}
            for ref in loop_refs:
                if ref not in segments:
                    raise NotFoundError(
                        f"nothing is remembered at {ref}",
                        advice="Copy an anchor from the results of a memory search.",
                    )
            focuses.update(segments)
        return focuses

    def _window(self, focus: Segment, reach: Reach) -> Window:
        ref = focus.anchor.ref
        words = self._words(ref.run_loop_id)
        assert words is not None
        return Window(
            focus,
            Side(ref, words.before(ref), reach.before, reach.unit),
            Side(ref, words.after(ref), reach.after, reach.unit),
        )

    def _joined(self, group: Sequence[Window]) -> ExpandedWindow:
        run_loop_id = group[0].focus.anchor.run_loop_id
        words = self._words(run_loop_id)
        assert words is not None
        pieces = {piece.anchor.ref: piece for window in group for piece in window.segments}
        focuses = {window.focus.anchor.ref for window in group}
        archived = self._ledger.successors(run_loop_id, owner=self._owner)
        successors = (*(each.id for each in archived), *self._successors.get(run_loop_id, ()))
        return ExpandedWindow(
            run_loop=words.summary,
            focus=tuple(pieces[ref] for ref in sorted(focuses)),
            segments=tuple(pieces[ref] for ref in sorted(pieces)),
            successor_ids=tuple(dict.fromkeys(successors)),
        )

    def _open_words(self, run_loop_id: str) -> _Words | None:
        if run_loop_id in self._loops:
            return _LiveWords(self._loops[run_loop_id])
        summary = self._ledger.summary(run_loop_id, owner=self._owner)
        return _LedgerWords(self._ledger, summary) if summary else None


class _LedgerWords:
    """The words of a run loop as the ledger has them."""

    def __init__(self, ledger: Ledger, summary: RunLoopSummary) -> None:
        self._ledger = ledger
        self.summary = summary

    def at(self, refs: Iterable[AnchorRef]) -> Mapping[AnchorRef, Segment]:
        return self._ledger.segments.at(refs, owner=self.summary.owner)

    def before(self, ref: AnchorRef) -> Iterator[Segment]:
        return self._ledger.segments.before(ref, owner=self.summary.owner)

    def after(self, ref: AnchorRef) -> Iterator[Segment]:
        return self._ledger.segments.after(ref, owner=self.summary.owner)


class _LiveWords:
    """The words of a run loop as it is now; no more of it is cut than is read."""

    def __init__(self, run_loop: RunLoop) -> None:
        self.summary = run_loop.summary()
        self._count = len(run_loop.iterations)
        self._segments = cache(lambda index: segments_of(run_loop, index))

    def at(self, refs: Iterable[AnchorRef]) -> Mapping[AnchorRef, Segment]:
        requested = frozenset(refs)
        indexes = {each.iteration_index for each in requested if each.iteration_index < self._count}
        pieces = (piece for index in indexes for piece in self._segments(index))
        return {piece.anchor.ref: piece for piece in pieces if piece.anchor.ref in requested}

    def before(self, ref: AnchorRef) -> Iterator[Segment]:
        yield from (
            piece
            for piece in reversed(self._segments(ref.iteration_index))
            if piece.anchor.segment_index < ref.segment_index
        )
        for index in range(ref.iteration_index - 1, -1, -1):
            yield from reversed(self._segments(index))

    def after(self, ref: AnchorRef) -> Iterator[Segment]:
        yield from (
            piece
            for piece in self._segments(ref.iteration_index)
            if piece.anchor.segment_index > ref.segment_index
        )
        for index in range(ref.iteration_index + 1, self._count):
            yield from self._segments(index)
