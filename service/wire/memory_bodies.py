"""Long-term memory: searching it, reading around in it, its size, its notes, and forgetting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from service.domain.anchors import ExpandedWindow, MemoryNote, RememberedFact, SegmentType
from service.domain.forgetting_terms import ForgetPreview, ForgetReceipt
from service.domain.run_loops import Timestamp
from service.domain.search_checks import MOST_QUESTIONS, QUESTIONS
from service.wire.daemon_bodies import ProblemDetails
from service.wire.time_parameters import Moment

_MOST_NAMED = 10_000


class SearchRequest(BaseModel):
    """What to look for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(max_length=10_000)
    """In any words and any language."""
    limit: int = Field(default=8, ge=1, le=100)
    """At most so many hits."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Bound of all hits together; the best one always comes."""
    types: list[SegmentType] | None = Field(default=None, min_length=1)
    """Only segments of these types."""
    since: Moment | None = None
    """Only from then on."""
    until: Moment | None = None
    """Only from before then."""
    run_loop_id: str | None = None
    """Only from this run loop."""
    without_run_loop_id: str | None = None
    """From all run loops but this one."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict, max_length=20)
    """Only what was sent with all of these names and values."""
    explain: bool = False
    """Whether each hit tells the parts of its score."""
    rerank: bool = False
    """Whether the reranker, if one is configured, has the last word."""
    fold: bool = True
    """Whether pieces that say the same are one hit, with the others as its `duplicates`."""


class AnchorObject(BaseModel):
    """An anchor as a search gives it; its first three members suffice."""

    model_config = ConfigDict(extra="forbid")

    run_loop_id: str
    iteration_index: int = Field(ge=0, lt=10**9)
    segment_index: int = Field(ge=0, lt=10**9)
    segment_type: SegmentType | None = None
    timestamp: str | None = None
    text: str | None = None


AnchorInput = Annotated[
    str | AnchorObject, Field(description="RUN_LOOP_ID:ITERATION.SEGMENT, or an anchor object")
]


class ExpandRequest(BaseModel):
    """What to read around: one anchor, or several."""

    model_config = ConfigDict(extra="forbid")

    anchor: AnchorInput | None = None
    anchors: list[AnchorInput] | None = Field(default=None, min_length=1, max_length=100)
    before: int = Field(default=3, ge=0, le=1000)
    """How many segments, or iterations, before each."""
    after: int = Field(default=3, ge=0, le=1000)
    """How many segments, or iterations, after each."""
    unit: Literal["segments", "iterations"] = "segments"
    """What `before` and `after` count; iterations are given whole, an anchor's own too."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Bound of all that is given together; what is farthest from the anchors falls first."""

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.anchor is None) == (self.anchors is None):
            raise ValueError("give either `anchor` or `anchors`")
        return self


class ExpandedWindows(BaseModel):
    """What stands around several anchors; where that overlaps or touches, it is one window."""

    windows: list[ExpandedWindow]


class IndexProgress(BaseModel):
    """Work on the vector index that is under way."""

    doing: Literal["embedding", "reindexing", "rebuilding", "scrubbing", "indexing tokens"]
    done: int
    """Segments."""
    total: int
    rate: float
    """Segments a second, lately; 0 before that is known."""
    eta_seconds: float | None


class IndexInfo(BaseModel):
    """The vector index."""

    place: str
    """Which Chroma it is in."""
    generation: int | None
    """The one that is searched; null while it is being built."""
    embedder: str | None
    """Which embedder built it."""
    configured: str | None
    """Which one is configured; null before it is loaded."""
    indexed: int
    scrub_pending: bool
    """Whether files are still to be rid of what was forgotten."""
    damaged: list[str]
    """Folders that were set aside as damaged; they can be deleted."""
    notice: str | None
    """Why it is not used, and what to do."""


class SearchCheckRequest(BaseModel):
    """How much to ask memory for."""

    model_config = ConfigDict(extra="forbid")

    questions: int = Field(default=QUESTIONS, ge=1, le=MOST_QUESTIONS)


class ReindexRequest(BaseModel):
    """How to build the index anew."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False
    """Even when the configured embedder has built the one there is."""


class ReindexStarted(BaseModel):
    """Whether a new index is being built."""

    started: bool
    notice: str | None
    """Why none was begun."""


class Stats(BaseModel):
    """How much is remembered."""

    run_loops: int
    segments: int
    embedded: int
    pending: int
    """Segments that wait for their vector; they are found by their words already."""
    embedder: str | None
    """Which one is in use; None before it is loaded, or without one."""
    problem: str | None
    """Why embedding does not go on."""
    notice: str | None = None
    """While the ledger does not yet hold all that the journal does: how far it has come."""
    notes: int = 0
    """How many notes you have."""
    notes_problem: str | None = None
    """Why none are written at present, where they should be; see ``/v1/memory/notes``."""
    index: IndexInfo | None = None
    progress: IndexProgress | None = None
    """What is being done about the index; null when nothing is."""
    readers: dict[str, int] = Field(default_factory=dict)
    """By how many changes of the journal each of those who follow it is behind."""


class Consolidation(BaseModel):
    """How the writing of notes gets on. The counts are of this process."""

    enabled: bool
    state: Literal["off", "waiting", "writing", "used up", "failing"]
    """``waiting``: for idle time, or for something new; ``used up``: the day's tokens are;
    ``failing``: `problem` says why; it is tried again."""
    tokens_today: int = 0
    max_tokens_per_day: int | None = None
    sentences_written: int = 0
    sentences_dropped: Mapping[str, int] = {}
    """By reason: what the model wrote and could not show to be true."""
    passages_set_aside: int = 0
    """Segments to which the model gives no usable answer; tried again at the next start."""
    last_written_at: Timestamp | None = None
    problem: str | None = None


class NoteList(BaseModel):
    """All notes, those written last first."""

    notes: list[MemoryNote]
    consolidation: Consolidation


class RememberRequest(BaseModel):
    """A fact to remember."""

    model_config = ConfigDict(extra="forbid")

    fact: str = Field(min_length=1, max_length=500)
    """One sentence that is understood by itself."""
    replaces: str | None = None
    """RUN_LOOP_ID:ITERATION.SEGMENT of what it corrects: an older fact, or anything else."""


class FactKept(BaseModel):
    """Where a fact is kept."""

    anchor: str


class FactList(BaseModel):
    """All facts that you asked to be remembered, the newest first, corrected ones too."""

    facts: list[RememberedFact]


class ForgetBody(BaseModel):
    """What is to be forgotten; without `confirm`, it is only shown."""

    model_config = ConfigDict(extra="forbid")

    run_loop_ids: list[str] = Field(default=[], max_length=_MOST_NAMED)
    """Whole run loops; with a time, what they hold of it."""
    anchors: list[str] = Field(default=[], max_length=_MOST_NAMED)
    """RUN_LOOP_ID:ITERATION.SEGMENT; each forgets the iteration that it stands in."""
    since: Moment | None = None
    """Only from then on; with nothing else, all from then on."""
    until: Moment | None = None
    """Only from before then; with nothing else, all from before then."""
    query: str | None = Field(default=None, max_length=10_000)
    """What a search finds, each hit with its iteration."""
    limit: int = Field(default=8, ge=1, le=100)
    """At most so many hits."""
    exact: bool = False
    """Instead of searching: every iteration that holds the words of `query` just so."""
    all: bool = False
    """Everything that you have ever said and done here."""
    with_answers: bool = False
    """Also what models and tools said that had seen the words, where it tells them."""
    with_all_that_saw: bool = False
    """Also what they said where it does not seem to."""
    stop: bool = False
    """Cancel run loops that are active, and then forget them."""
    confirm: str | None = Field(default=None, max_length=100)
    """The code of a preview of the same request: forget what it showed. Left out: show it. Null is
    refused: it is what a preview says that cannot be confirmed."""

    @field_validator("confirm", mode="before")
    @classmethod
    def _is_a_code(cls, given: object) -> object:
        if given is None:  # only where it was given: the default is not looked at
            raise ValueError(
                "null is no code, and nothing was forgotten: the preview could not be confirmed;"
                " its `notice` says why. Leave `confirm` out for a preview"
            )
        return given


class ForgetReceipts(BaseModel):
    """What has been forgotten, newest first; none of the words."""

    receipts: list[ForgetReceipt]


class ForgetProblem(ProblemDetails):
    """Why nothing was forgotten, and how it stands now."""

    preview: ForgetPreview
