"""What a search ranks: passages among those beside them, and how rare the question's words are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from service.domain.anchors import AnchorRef


class Passage(NamedTuple):
    """A segment, as something to rank or as the context of another."""

    ref: AnchorRef
    content: str
    terms: str
    """As they are indexed, separated by spaces."""
    cosine: float | None
    """Of its vector and the question's; None when it has none."""
    match: float | None = None
    """How well its tokens match the question's, see `TokenMatches`; None when it has no codes."""
    time: float = 0.0
    """How well its moment fits a time that the question names, 0 to 1; 0 when it names none."""
    then: bool = False
    """Whether it was said in a stretch of time that the question names."""
    at: float = 0.0
    """When it was said, in seconds since 1970."""
    eligible: bool = True
    """Whether it may be found: filters exclude some that are still context."""


class InContext(NamedTuple):
    """A passage and those beside it in its run loop, whatever their type."""

    passage: Passage
    before: Sequence[Passage] = ()
    """Nearest first, without gaps; `tuned.CONTEXT` of them where there are so many."""
    after: Sequence[Passage] = ()
    """Nearest first, without gaps; `tuned.CONTEXT` of them where there are so many."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the question's words are measured against."""

    segments: int
    """How many are indexed."""
    frequency: Mapping[str, int]
    """In how many of them each term of the question stands; a term may be missing for none."""
