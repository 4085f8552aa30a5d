"""A second engine behind the lexical index's protocol: terms in a dict, scored one by one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from service.domain.anchors import Segment
from service.domain.run_loops import RunLoop, epoch
from service.memory.ledger.protocol import Scored
from service.memory.ledger.segmenter import segment
from service.memory.ledger.terms import terms
from service.memory.protocol import SearchFilters


class WordsInMemory:
    """A `LexicalIndex` of the run loops that it is given."""

    def __init__(self) -> None:
        self._segments: dict[int, tuple[Segment, Mapping[str, object]]] = {}
        self._terms: dict[int, Counter[str]] = {}
        self._last = 0

    def archive(self, *run_loops: RunLoop) -> None:
        """Index run loops, each in place of what it was before."""
        for run_loop in run_loops:
            self.remove(run_loop.owner, run_loop.id)
            for piece in segment(run_loop):
                self._last += 1
                sent = run_loop.iterations[piece.anchor.iteration_index].metadata
                self._segments[self._last] = (piece, sent)
                self._terms[self._last] = Counter(terms(piece.content))

    def remove(self, owner: str, run_loop_id: str) -> None:
        """Let nothing of a run loop be found."""
        for number, (piece, _) in list(self._segments.items()):
            if (piece.owner, piece.anchor.run_loop_id) == (owner, run_loop_id):
                del self._segments[number], self._terms[number]

    def text(self, number: int) -> str:
        """The text of a segment."""
        return self._segments[number][0].content

    def search(
        self, terms: Sequence[str], *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Scored]:
        """See `LexicalIndex.search`."""
        scored = [
            Scored(number, score)
            for number in self._of(owner, filters)
            if (score := self._score(number, terms)) > 0
        ]
        return sorted(scored, key=lambda each: (-each.score, -each.number))[:limit]

    def holding_all(self, terms: Iterable[str], *, owner: str, limit: int = 100) -> list[int]:
        """See `LexicalIndex.holding_all`."""
        needed = set(terms)
        mine = self._of(owner, SearchFilters())
        return [n for n in reversed(mine) if needed and needed <= self._terms[n].keys()][:limit]

    def frequencies(self, terms: Iterable[str]) -> Mapping[str, int]:
        """See `LexicalIndex.frequencies`."""
        return {term: self._frequency(term) for term in terms}

    def count(self) -> int:
        """See `LexicalIndex.count`."""
        return len(self._segments)

    def clear(self) -> None:
        """See `LexicalIndex.clear`."""

    def _frequency(self, term: str) -> int:
        return sum(bool(_times(held, term)) for held in self._terms.values())

    def _score(self, number: int, terms: Sequence[str]) -> float:
        held = self._terms[number]
        return sum(
            math.log(1 + self.count() / self._frequency(term)) * times / (times + 1.2)
            for term in set(terms)
            if (times := _times(held, term))
        )

    def _of(self, owner: str, filters: SearchFilters) -> list[int]:
        return [
            number
            for number, (piece, sent) in self._segments.items()
            if piece.owner == owner and _passes(piece, sent, filters)
        ]


def _times(held: Mapping[str, int], term: str) -> int:
    if not term.endswith("*"):
        return held.get(term, 0)
    return sum(times for each, times in held.items() if each.startswith(term[:-1]))


def _passes(piece: Segment, sent: Mapping[str, object], filters: SearchFilters) -> bool:
    anchor = piece.anchor
    at = epoch(anchor.timestamp)
    return (
        (filters.types is None or anchor.segment_type in filters.types)
        and (filters.since is None or at >= epoch(filters.since))
        and (filters.until is None or at < epoch(filters.until))
        and filters.run_loop_id in (None, anchor.run_loop_id)
        and filters.without_run_loop_id != anchor.run_loop_id
        and all(name in sent and sent[name] == value for name, value in filters.metadata.items())
    )
