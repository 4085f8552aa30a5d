"""The difference between two texts, as people read it: unified, and bounded.

The form is that of ``diff -u`` (https://www.gnu.org/software/diffutils/manual/, “Unified Format”).
Large texts are first aligned at the lines that occur once in each, as the patience diff does
(https://bramcohen.livejournal.com/73318.html), so that the time grows with their length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

_AROUND = 3
"""Lines that are shown before and after a change."""
_MOST_LINES = 300
_MOST_CHARACTERS = 30_000
_MOST_OF_A_LINE = 400
_BEFORE_A_CHANGE = 100
"""Characters of a long line that are shown before what differs in it."""
_MOST_COMPARED = 250_000
"""Pairs of lines; `SequenceMatcher` may need the square of their number."""
_MOST_ALIGNED = 20
"""How often what lies between aligned lines is aligned once more."""
_NOT_ENDED = "\n\\ No newline at end of file"


class Region(NamedTuple):
    """Lines ``[start, end)`` of the old text, in whose place ``[new_start, new_end)`` stand."""

    start: int
    end: int
    new_start: int
    new_end: int


def difference(
    old: str | None, new: str | None, name: str, *, most_lines: int = _MOST_LINES
) -> str:
    r"""What stands in the place of what; what is cut is said.

    >>> print(difference("one\ntwo\n", "one\n2\n", "a.txt"))
    --- a.txt
    +++ a.txt
    @@ -1,2 +1,2 @@
     one
    -two
    +2

    Args:
        old: the text before; None: there was no file.
        new: the text after; None: there will be no file.
        name: of the file, as it is shown.
        most_lines: how many lines are shown, beside the head.
    """
    one, other = _lines(old or ""), _lines(new or "")
    regions = list(_regions(one, other, Region(0, len(one), 0, len(other))))
    rows = [row for hunk in _hunks(regions) for row in _rows(one, other, hunk)]
    head = [
        f"--- {'/dev/null' if old is None else name}",
        f"+++ {'/dev/null' if new is None else name}",
    ]
    lengths = accumulate(len(row) + 1 for row in rows)
    fitting = min(most_lines, sum(length <= _MOST_CHARACTERS for length in lengths))
    shown = [*head, *rows[:fitting]]
    if len(rows) > fitting:
        counts = Counter(row[:1] for row in rows[fitting:])
        shown.append(
            f"[… not shown: {len(rows) - fitting:,} more lines of the difference;"
            f" {counts['-']:,} that go, and {counts['+']:,} that come]"
        )
    return "\n".join(shown)


def _lines(text: str) -> list[str]:
    *lines, rest = text.split("\n")
    return [*lines, rest + _NOT_ENDED] if rest else lines


def _regions(
    old: Sequence[str], new: Sequence[str], within: Region, *, depth: int = 0
) -> Iterator[Region]:
    """Where two texts differ within a region, in order."""
    start, end, new_start, new_end = within
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    rest = Region(start, end, new_start, new_end)
    if start == end or new_start == new_end:
        if start < end or new_start < new_end:
            yield rest
        return
    if (end - start) * (new_end - new_start) <= _MOST_COMPARED:
        matcher = SequenceMatcher(None, old[start:end], new[new_start:new_end])
        for tag, i, j, k, m in matcher.get_opcodes():
            if tag != "equal":
                yield Region(start + i, start + j, new_start + k, new_start + m)
        return
    anchors = _anchors(old, new, rest) if depth < _MOST_ALIGNED else []
    if not anchors:
        yield rest
        return
    for at, new_at in [*anchors, (end, new_end)]:
        yield from _regions(old, new, Region(start, at, new_start, new_at), depth=depth + 1)
        start, new_start = at + 1, new_at + 1


def _anchors(old: Sequence[str], new: Sequence[str], within: Region) -> list[tuple[int, int]]:
    """The longest row of lines that occur once in each text, in the same order in both."""
    start, end, new_start, new_end = within
    counts, new_counts = Counter(old[start:end]), Counter(new[new_start:new_end])
    places = {new[at]: at for at in range(new_start, new_end) if new_counts[new[at]] == 1}
    tails: list[int] = []  # of the best row of each length: the place in the new text
    ends: list[int] = []
    before: dict[int, int] = {}
    pairs: dict[int, int] = {}
    for at in range(start, end):
        new_at = places.get(old[at])
        if new_at is None or counts[old[at]] > 1:
            continue
        length = bisect_left(tails, new_at)
        tails[length : length + 1] = [new_at]
        ends[length : length + 1] = [at]
        before[at] = ends[length - 1] if length else -1
        pairs[at] = new_at
    row: list[tuple[int, int]] = []
    last = ends[-1] if ends else -1
    while last >= 0:
        row.append((last, pairs[last]))
        last = before[last]
    return row[::-1]


def _hunks(regions: Sequence[Region]) -> Iterator[list[Region]]:
    """Regions that stand so near to each other that they are shown together."""
    hunk: list[Region] = []
    for region in regions:
        if hunk and region.start - hunk[-1].end > 2 * _AROUND:
            yield hunk
            hunk = []
        hunk.append(region)
    if hunk:
        yield hunk


def _rows(old: Sequence[str], new: Sequence[str], hunk: Sequence[Region]) -> Iterator[str]:
    start = max(hunk[0].start - _AROUND, 0)
    end = min(hunk[-1].end + _AROUND, len(old))
    new_start = hunk[0].new_start - (hunk[0].start - start)
    new_end = hunk[-1].new_end + (end - hunk[-1].end)
    yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@"
    at = start
    for region in hunk:
        yield from (f" {_shortened(line)}" for line in old[at : region.start])
        taken, put = old[region.start : region.end], new[region.new_start : region.new_end]
        froms = _differing_from(taken, put)
        yield from (f"-{_shortened(*each)}" for each in zip(taken, froms, strict=False))
        yield from (f"+{_shortened(*each)}" for each in zip(put, froms, strict=False))
        at = region.end
    yield from (f" {_shortened(line)}" for line in old[at:end])


def _differing_from(taken: Sequence[str], put: Sequence[str]) -> list[int]:
    """Where lines begin to differ from those in whose place they stand; 0 where that is unclear."""
    if len(taken) != len(put):
        return [0] * max(len(taken), len(put))
    pairs = zip(taken, put, strict=True)
    return [
        next((at for at, (one, other) in enumerate(zip(*pair, strict=False)) if one != other), 0)
        for pair in pairs
    ]


def _range(start: int, end: int) -> str:
    """As the form has it: where nothing is, the line before is named."""
    count = end - start
    return f"{start + 1 if count else start}" + ("" if count == 1 else f",{count}")


def _shortened(line: str, at: int = 0) -> str:
    """A long line around a place in it."""
    if len(line) <= _MOST_OF_A_LINE:
        return line
    start = max(at - _BEFORE_A_CHANGE, 0)
    end = start + _MOST_OF_A_LINE
    before = f"[{start:,} characters …] " if start else ""
    after = f" [… {len(line) - end:,} characters]" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"
