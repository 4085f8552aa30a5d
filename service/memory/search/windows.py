"""How much of what stands around segments is shown, and what of it is one stretch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from service.domain.anchors import AnchorRef, Segment
from service.domain.conversation.token_estimates import estimate_tokens
from service.memory.protocol import Unit


class Reach(NamedTuple):
    """How far around a segment somebody wants to read."""

    before: int = 3
    after: int = 3
    unit: Unit = "segments"
    """What `before` and `after` count. Iterations are given whole, the segment's own too."""


class Side:
    """The segments on one side of a focus, nearest first, of which the nearest can be taken."""

    def __init__(
        self, focus: AnchorRef, segments: Iterator[Segment], count: int, unit: Unit
    ) -> None:
        """Name the parts.

        Args:
            focus: where the side begins.
            segments: all of that side, nearest first; read no farther than is taken, and one more.
            count: how many can be taken.
            unit: what is counted.
        """
        self.taken: list[Segment] = []
        self._focus = focus
        self._segments = segments
        self._count = count
        self._unit = unit
        self.next = next(segments, None)
        """The first that was not taken."""

    @property
    def within_reach(self) -> Segment | None:
        """The next one, if it can be taken."""
        if self.next is None:
            return None
        if self._unit == "segments":
            return self.next if len(self.taken) < self._count else None
        distance = abs(self.next.anchor.iteration_index - self._focus.iteration_index)
        return self.next if distance <= self._count else None

    def take(self) -> None:
        """Take the next one."""
        assert self.next is not None
        self.taken.append(self.next)
        self.next = next(self._segments, None)


@dataclass(slots=True)
class Window:
    """A focus and what is taken on its sides."""

    focus: Segment
    before: Side
    after: Side

    @property
    def can_grow(self) -> bool:
        """Whether there is more within reach."""
        return bool(self.before.within_reach or self.after.within_reach)

    @property
    def segments(self) -> list[Segment]:
        """All of it, in order."""
        return [*reversed(self.before.taken), self.focus, *self.after.taken]


def fill(windows: Sequence[Window], max_tokens: int | None) -> None:
    """Take what is within reach and fits, each segment counted once; the nearest ones first.

    The focuses count, and are there whatever they cost. No side gets a gap: where one segment does
    not fit, those beyond it fall too, and so do those as far away on the other side. Of two at the
    same distance the later one stays, which is more often the answer to the focus.
    """
    budget = _Budget(max_tokens)
    for window in windows:
        budget.spend(window.focus)
    growing = list(windows)
    while growing:
        growing = [window for window in growing if _grow(window.after, budget)]
        growing = [window for window in growing if _grow(window.before, budget)]
        growing = [window for window in growing if window.can_grow]


def merged(windows: Sequence[Window]) -> list[list[Window]]:
    """Windows of one run loop, gathered where they overlap or touch; in the order of the loop."""
    groups: list[list[Window]] = []
    last: AnchorRef | None = None
    beyond: AnchorRef | None = None
    for window in sorted(windows, key=lambda each: each.segments[0].anchor.ref):
        pieces = window.segments
        first, end = pieces[0].anchor.ref, pieces[-1].anchor.ref
        if last is not None and (first <= last or first == beyond):
            groups[-1].append(window)
        else:
            groups.append([window])
        if last is None or end > last:
            last = end
            beyond = window.after.next.anchor.ref if window.after.next else None
    return groups


def _grow(side: Side, budget: _Budget) -> bool:
    """Take the next segment, if there is one within reach; False when it does not fit."""
    piece = side.within_reach
    if piece is not None:
        if not budget.pays(piece):
            return False
        side.take()
    return True


class _Budget:
    """Tokens to spend; what was paid once is free afterwards."""

    def __init__(self, max_tokens: int | None) -> None:
        self._left = max_tokens
        self._paid: set[AnchorRef] = set()

    def spend(self, piece: Segment) -> None:
        """Pay, whatever is left."""
        if self._left is not None and piece.anchor.ref not in self._paid:
            self._left -= estimate_tokens(piece.content)
            self._paid.add(piece.anchor.ref)

    def pays(self, piece: Segment) -> bool:
        """Pay, if there is enough; whether there was."""
        paid = self._left is None or piece.anchor.ref in self._paid
        if not paid and estimate_tokens(piece.content) > (self._left or 0):
            return False
        self.spend(piece)
        return True
