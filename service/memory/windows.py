"""How much of a segment's surroundings fits into a bound."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.anchors import Segment
from service.memory.tokens import estimate_tokens


def nearest_within(
    before: Sequence[Segment], after: Sequence[Segment], max_tokens: int
) -> tuple[list[Segment], list[Segment]]:
    """What fits of the segments before and after a focus, both given nearest first.

    Neither side gets a gap: where one segment does not fit, those beyond it fall too. Of two at the
    same distance the later one stays, which is more often the answer to the focus.
    """
    kept: tuple[list[Segment], list[Segment]] = ([], [])
    for distance in range(max(len(before), len(after))):
        for side, segments in ((1, after), (0, before)):
            if distance >= len(segments):
                continue
            cost = estimate_tokens(segments[distance].content)
            if cost > max_tokens:
                return kept
            max_tokens -= cost
            kept[side].append(segments[distance])
    return kept
