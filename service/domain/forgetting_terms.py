"""The words of forgetting: what is to go, what would go, and what has gone."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain.anchors import AnchorRef
from service.domain.errors import ConflictError
from service.domain.run_loops import Status, Timestamp

FORGOTTEN = "[forgotten]"
"""What stands where words stood that were forgotten."""
FORGOTTEN_ARGUMENTS = '{"forgotten": true}'
"""What stands in place of the arguments of a tool call: JSON, as they were."""

CopyKind = Literal["fork", "moved", "recalled", "quoted", "answer", "saw"]
"""How words got to another place: with a fork; with a message that was moved from there; from
memory; as a goal that the router wrote down; and, where they are to go as well, in what was said by
somebody who had seen them, and tells them, or does not."""
PartOfPlace = Literal[
    "answer", "call", "result", "question", "approval", "summary", "problem", "memory", "import"
]
"""What stands at a place: what a model said; a tool's call and its result; what a person was asked;
what their yes repeats of it; a summary of the conversation; what went wrong; a piece of memory;
what a file brought in."""
PlaceOfWords = Literal["ledger", "files", "vectors"]
"""Where forgotten words may still lie, once the journal is rid of them: in the ledger and its
indexes; in freed pages and write-ahead logs; in the files of the vector index."""


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True)


class ForgetRequest(_Words):
    """What an owner wants to be forgotten.

    `run_loop_ids`, `anchors` and `query` add up; `since` and `until` narrow them, or, alone, select
    all of that time.
    """

    run_loop_ids: tuple[str, ...] = ()
    """Whole run loops; with a time, what they hold of it."""
    anchors: tuple[AnchorRef, ...] = ()
    """Each forgets the iteration that it stands in."""
    since: datetime | None = None
    """Inclusive."""
    until: datetime | None = None
    """Exclusive."""
    query: str | None = None
    """What a search finds is forgotten, each hit with its iteration."""
    limit: int = 8
    """At most so many hits; not with `exact`."""
    exact: bool = False
    """Instead of a search: every iteration that holds the words of `query` just so, capitals
    aside."""
    everything: bool = False
    """All that the owner has ever said and done here."""
    with_answers: bool = False
    """Also what somebody said who had seen the words, where it tells them."""
    with_all_that_saw: bool = False
    """Also what they said where it does not seem to."""
    stop: bool = False
    """Cancel run loops that are active, and then forget them."""

    @property
    def is_empty(self) -> bool:
        """Whether it names nothing at all."""
        return not (
            self.run_loop_ids
            or self.anchors
            or self.query
            or self.since
            or self.until
            or self.everything
        )


class DoomedRunLoop(_Words):
    """A run loop that would be forgotten whole."""

    id: str
    goal: str
    """Its first words."""
    status: Status
    created_at: Timestamp
    completed_at: Timestamp | None = None
    iterations: int


class DoomedIteration(_Words):
    """A single iteration that would be forgotten."""

    run_loop_id: str
    iteration: int
    at: Timestamp
    words: str
    """Its first words."""


class CopiesElsewhere(_Words):
    """Another run loop that holds copies of what would be forgotten."""

    run_loop_id: str
    goal: str
    """Its first words."""
    status: Status
    kinds: tuple[CopyKind, ...]
    places: int
    """How many of its events would lose words."""


class PlaceThatSaw(_Words):
    """Where somebody spoke who had seen the words: a model that they had been put before, or a tool
    that it called."""

    run_loop_id: str
    iteration: int | None
    """None: of none of them, such as a summary."""
    parts: tuple[PartOfPlace, ...]
    words: str
    """The first words that stand there."""


class Repetition(_Words):
    """Where the same words stand though nobody there has been shown them, as far as is known."""

    run_loop_id: str
    iteration: int
    by: Literal["person", "import", "other"]
    """Who says them there: a person again; a file that was imported; a model or a tool."""
    words: str
    """The first words that stand there."""


class NoteMention(_Words):
    """A sentence of a note that rests on what would be forgotten, or on what tells it."""

    subject: str
    text: str
    goes: bool
    """Whether it falls with what would be forgotten."""


class ScheduleMention(_Words):
    """A schedule that was made in what would be forgotten, or that says the same."""

    id: str
    what: str
    goes: bool
    """Whether it goes with what would be forgotten; else it stays until it is removed."""


class RunLoopMention(_Words):
    """A run loop in a list: which one, and its first words."""

    id: str
    goal: str
    status: Status


class ForgetPreview(_Words):
    """What would be forgotten. Nothing has been removed."""

    run_loops: tuple[DoomedRunLoop, ...]
    iterations: tuple[DoomedIteration, ...]
    copies: tuple[CopiesElsewhere, ...]
    """Where copies stand that would be removed with it."""
    answers: tuple[PlaceThatSaw, ...] = ()
    """What was said by those who had seen the words, and tells them: goes if the request has
    `with_answers` or `with_all_that_saw`."""
    saw: tuple[PlaceThatSaw, ...] = ()
    """What was said by those who had seen the words, and does not seem to tell them: goes if the
    request has `with_all_that_saw`."""
    notes: tuple[NoteMention, ...] = ()
    repeated: tuple[Repetition, ...] = ()
    """Where the same words stand besides. They stay; name these places to forget them."""
    schedules: tuple[ScheduleMention, ...] = ()
    related: tuple[RunLoopMention, ...] = ()
    """Run loops that may speak of the same topic. Beyond the copies, their words stay."""
    active: tuple[RunLoopMention, ...] = ()
    """Run loops that stand in the way as long as they are active."""
    events: int
    """How many events of the journal would be removed or rewritten."""
    notice: str | None = None
    """In words, why it cannot be done just now."""
    confirm: str | None = None
    """Sent back with the same request, it makes it so; None where that is not possible."""


class Removed(_Words):
    """How much has gone from each place."""

    events: int = 0
    """Taken out of the journal."""
    rewritten: int = 0
    """Left in the journal, without their words."""
    messages: int = 0
    """Receipts of messages, and messages that nobody could read."""
    usage: int = 0
    """Lines that do not name the run loop any more; what was used stays counted."""
    approvals: int = 0
    """Standing approvals that were given there: a person is asked again."""
    schedules: int = 0
    """Schedules that were made there: they are due no more."""
    segments: int = 0
    """Of the ledger, each with its words in the full-text index and its vectors."""
    notes: int = 0
    journal_copies: int = 0
    """Files that held the journal as it was before its form changed."""
    file_changes: int = 0
    """What files of the person's held before tool calls changed them."""
    sent_files: int = 0
    """Files that were sent with messages."""


class ForgetReceipt(_Words):
    """What has been forgotten. It holds numbers and ids, none of the words."""

    id: str
    at: Timestamp
    by: tuple[Literal["run_loops", "anchors", "time", "query", "exact", "everything"], ...]
    """What was named to select it."""
    run_loops: tuple[str, ...]
    """Forgotten whole."""
    iterations: dict[str, tuple[int, ...]]
    """Forgotten singly, by the run loop that they stood in."""
    copies: dict[str, int]
    """By run loop: how many events lost copies."""
    removed: Removed = Field(default_factory=Removed)
    pending: tuple[PlaceOfWords, ...] = ()
    """Where remains may still lie; gone over again until there is no such place."""
    problem: str | None = None
    """What keeps that from being finished, if something does."""
    finished_at: Timestamp | None = None
    """When the last remains went."""


class ForgetConflictError(ConflictError):
    """It cannot be forgotten like this: something is active, or is not as it was previewed."""

    title = "Nothing was forgotten"

    def __init__(self, detail: str, preview: ForgetPreview, *, advice: str) -> None:
        super().__init__(detail, advice=advice)
        self.preview = preview
        """How it stands now."""
