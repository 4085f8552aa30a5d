"""Segments of run loops and their addresses.

An anchor's short form is ``RUN_LOOP_ID:ITERATION.SEGMENT``, for people to paste:

>>> AnchorRef.parse("01jd3v6k2m9x4q8w:3.1")
AnchorRef(run_loop_id='01jd3v6k2m9x4q8w', iteration_index=3, segment_index=1)
>>> str(AnchorRef("a:b c", 0, 2))
'a:b%20c:0.2'
>>> AnchorRef.parse("a:b%20c:0.2").run_loop_id
'a:b c'
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field, computed_field

from service.domain.errors import BadAnchorError
from service.domain.run_loops import RunLoopSummary, Timestamp

SegmentType = Literal["user_message", "reasoning", "tool_call", "tool_result", "response"]

_FORM = re.compile(r"(?P<loop>\S+):(?P<iteration>\d{1,9})\.(?P<segment>\d{1,9})")


class AnchorRef(NamedTuple):
    """The part of an anchor that identifies a segment: what the short form says."""

    run_loop_id: str
    iteration_index: int
    segment_index: int

    def __str__(self) -> str:
        """The short form."""
        loop = quote(self.run_loop_id, safe=":._-~@+!$&'()*,;=/")
        return f"{loop}:{self.iteration_index}.{self.segment_index}"

    @classmethod
    def parse(cls, text: str) -> AnchorRef:
        """Read the short form.

        Raises:
            BadAnchorError: the text is not of that form.
        """
        match = _FORM.fullmatch(text.strip().strip("[]"))
        if match is None:
            raise BadAnchorError(
                f"{text[:80]!r} is not of the form RUN_LOOP_ID:ITERATION.SEGMENT",
                advice="Copy an anchor from the results of a memory search, "
                "such as 01jd3v6k2m9x4q8w:0.1.",
            )
        return cls(unquote(match["loop"]), int(match["iteration"]), int(match["segment"]))


class Anchor(BaseModel):
    """The full address of a segment."""

    model_config = ConfigDict(frozen=True)

    run_loop_id: str
    iteration_index: int = Field(ge=0)
    segment_index: int = Field(ge=0)
    """Counts the segments of one iteration, all types together, from 0."""
    segment_type: SegmentType
    timestamp: Timestamp

    @property
    def ref(self) -> AnchorRef:
        """The identifying part."""
        return AnchorRef(self.run_loop_id, self.iteration_index, self.segment_index)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """The short form, for people to paste."""
        return str(self.ref)

    def __str__(self) -> str:
        return self.text


class Segment(BaseModel):
    """A piece of an iteration, word for word, and where it stands."""

    model_config = ConfigDict(frozen=True)

    anchor: Anchor
    content: str
    owner: str
    call_id: str | None = None
    """Of a tool call and of its result: what joins the two."""
    superseded_by: Anchor | None = Field(default=None, exclude_if=lambda anchor: anchor is None)
    """The newest fact that corrects what this says, see `RememberedFact`. Told with what memory
    gives, and no part of the segment itself."""


class MemoryHit(BaseModel):
    """A segment that a search found."""

    model_config = ConfigDict(frozen=True)

    anchor: Anchor
    content: str
    relevance: float
    """0 to 1: how sure it is that this is about what was asked, falling from the best hit on. A
    reranker's own score where one was asked."""
    related: bool = True
    """Whether it seems to be about what was asked; what does not is merely the best of the rest."""
    scores: dict[str, float] | None = None
    """The parts of the score, when asked to explain."""
    duplicates: tuple[Anchor, ...] = ()
    """Where else the same was said, near enough word for word: not given as hits of their own."""
    partners: tuple[Anchor, ...] = ()
    """Of a tool call: its result; of a tool result: its call."""
    superseded_by: Anchor | None = Field(default=None, exclude_if=lambda anchor: anchor is None)
    """The newest fact that corrects what this says, see `RememberedFact`."""


class RememberedFact(BaseModel):
    """What a person asked to be remembered, in a sentence."""

    model_config = ConfigDict(frozen=True)

    anchor: Anchor
    """Of the call that kept it."""
    text: str
    replaces: str | None = None
    """The short form of the anchor of what it corrects: an older fact, or anything else."""
    superseded_by: Anchor | None = None
    """The newest fact that corrects this one; None while it holds."""


class NoteSentence(BaseModel):
    """One sentence of a note, and what it rests on."""

    model_config = ConfigDict(frozen=True)

    text: str
    anchors: tuple[Anchor, ...]


class MemoryNote(BaseModel):
    """What was gathered about a person, a project or a topic; never a replacement of the words."""

    model_config = ConfigDict(frozen=True)

    id: str
    owner: str
    kind: Literal["person", "project", "topic"]
    subject: str
    sentences: tuple[NoteSentence, ...]
    written_at: Timestamp


class SearchResult(BaseModel):
    """What a search of long-term memory gave."""

    model_config = ConfigDict(frozen=True)

    hits: tuple[MemoryHit, ...]
    mode: Literal["hybrid", "lexical"]
    """``lexical`` when no embedder could be used."""
    notice: str | None = None
    """In words, when the search was less than it could have been."""
    notes: tuple[MemoryNote, ...] = ()
    """Notes on what was asked about, apart from the hits."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def related(self) -> int:
        """Where relevance ends: the last hit that seems to be about what was asked, counted from 1;
        0 when none does."""
        return max((place for place, hit in enumerate(self.hits, 1) if hit.related), default=0)


class ExpandedContext(BaseModel):
    """A segment and what stood around it."""

    model_config = ConfigDict(frozen=True)

    run_loop: RunLoopSummary
    focus: Segment
    before: tuple[Segment, ...]
    after: tuple[Segment, ...]
    successor_ids: tuple[str, ...] = ()
    """The run loops that took this one up again, oldest first; `run_loop` names its predecessor."""


class ExpandedWindow(BaseModel):
    """A stretch of one run loop around one or several segments."""

    model_config = ConfigDict(frozen=True)

    run_loop: RunLoopSummary
    focus: tuple[Segment, ...]
    """The segments that were asked for, in order."""
    segments: tuple[Segment, ...]
    """All segments of the stretch, those of `focus` among them, in order."""
    successor_ids: tuple[str, ...] = ()
