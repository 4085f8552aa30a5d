"""What is asked of the store of long-term memory: run loops, segments, words, and what is pending.

Each protocol is one job, and another engine may stand behind it. What they give is read by
number, which is a segment's row: it is never used twice, and is its id in the vector index, too.
All methods block and may be called from any thread; all raise StorageError when the disk refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.domain.anchors import Anchor, AnchorRef, Segment, SegmentType
from service.domain.run_loops import RunLoop, RunLoopSummary
from service.memory.journal.change_feed import Checkpoint
from service.memory.journal.event_reader import Outline
from service.memory.ledger.facts import FactStore
from service.memory.ledger.notes import NoteStore
from service.memory.protocol import SearchFilters
from service.memory.vectors.embedding_store import EmbeddingStore

Key = tuple[str, str]
"""A run loop's owner and id."""


class Pending(NamedTuple):
    """A run loop that has changed since it was archived."""

    owner: str
    run_loop_id: str
    change: int
    """The newest."""
    lost_words: bool = False
    """Whether words were forgotten in it since."""

    @property
    def key(self) -> Key:
        """Owner and id."""
        return (self.owner, self.run_loop_id)


class SegmentRow(NamedTuple):
    """A segment as searching needs it: the same object wherever one query gives it twice."""

    number: int
    """Its row in the ledger; also its id in the vector index."""
    ref: AnchorRef
    segment_type: SegmentType
    at: float
    """Seconds since 1970."""
    text: str
    terms: str
    """As in the index of words, separated by spaces."""


@dataclass(frozen=True, slots=True)
class Around:
    """A segment among those beside it in its run loop."""

    segment: SegmentRow
    before: Sequence[SegmentRow]
    """Nearest first."""
    after: Sequence[SegmentRow]
    """Nearest first."""


class Gone(NamedTuple):
    """How much has gone."""

    segments: int
    sentences: int
    """Of notes that cited them."""


class Scored(NamedTuple):
    """A segment that the lexical index offers."""

    number: int
    """Its row in the ledger."""
    score: float
    """BM25: higher is better."""


class LexicalIndex(Protocol):
    """Finds segments by their terms, see `service.memory.ledger.terms`."""

    def search(
        self, terms: Sequence[str], *, owner: str, filters: SearchFilters, limit: int
    ) -> list[Scored]:
        """The segments of an owner that hold any of some terms and pass the filters, best first.

        A term that ends in ``*`` is the beginning of one.

        Raises:
            InvalidInputError: the filters hold what no memory can hold.
        """
        ...

    def holding_all(self, terms: Iterable[str], *, owner: str, limit: int = 100) -> list[int]:
        """An owner's segments that hold all of some terms, the newest first."""
        ...

    def frequencies(self, terms: Iterable[str]) -> Mapping[str, int]:
        """In how many segments, of all owners, each term stands; nearly, for common ones."""
        ...

    def count(self) -> int:
        """How many segments, of all owners, are indexed; known at once."""
        ...

    def clear(self) -> None:
        """Keep no words in the process's memory."""
        ...


class Passing(Protocol):
    """The segments of an owner that pass the filters of one search."""

    def first(self, limit: int) -> list[int]:
        """Segments that pass, at most so many (-1: all), in no order."""
        ...

    def by_time(self, limit: int, *, newest: bool) -> list[int]:
        """The oldest segments that pass, or the newest, at most so many; these first."""
        ...

    def among(self, numbers: Iterable[int]) -> frozenset[int]:
        """Which of these pass."""
        ...


class SegmentReader(Protocol):
    """Reads segments: by address, by number, and what stands around them."""

    def at(self, refs: Iterable[AnchorRef], *, owner: str) -> Mapping[AnchorRef, Segment]:
        """The segments at these anchors; those that this owner does not have are left out."""
        ...

    def numbered(self, numbers: Iterable[int], *, owner: str) -> Mapping[int, Segment]:
        """The segments in these rows; those that this owner does not have are left out."""
        ...

    def passing(self, owner: str, filters: SearchFilters) -> Passing:
        """The segments of an owner that pass the filters of a search; nothing is read yet."""
        ...

    def neighbours(
        self,
        numbers: Iterable[int],
        *,
        owner: str,
        before: int,
        after: int,
        words: bool = True,
    ) -> Mapping[int, Around]:
        """For many segments at once, what stands beside each in its run loop, whatever its type.

        Args:
            numbers: of segments; those that this owner does not have (any more) are left out.
            owner: whose.
            before: at most so many before each.
            after: at most so many after each.
            words: whether to read text and terms; else both are empty.

        Raises:
            StorageError: the ledger cannot be read.
        """
        ...

    def before(self, ref: AnchorRef, *, owner: str) -> Iterator[Segment]:
        """The segments of the same run loop that stand before `ref`, nearest first, as needed."""
        ...

    def after(self, ref: AnchorRef, *, owner: str) -> Iterator[Segment]:
        """The segments of the same run loop that stand after `ref`, nearest first, as needed."""
        ...

    def partners(
        self, refs: Iterable[AnchorRef], *, owner: str
    ) -> Mapping[AnchorRef, tuple[Anchor, ...]]:
        """The result of each tool call among these segments, and the call of each tool result.

        Of a partner that was cut into several segments, the first is given. Segments that have no
        partner are left out.

        Raises:
            StorageError: the ledger cannot be read.
        """
        ...


class PendingRunLoops(Protocol):
    """How far long-term memory has read the change feed, and the run loops it has yet to archive.

    Both change in one transaction: so a loop that cannot be archived just now keeps no other one
    waiting, and none is missed.
    """

    def checkpoint(self) -> Checkpoint | None:
        """How far the change feed was read; None: never, or it is to be read anew."""
        ...

    def all(self) -> list[Pending]:
        """All run loops that are to be archived."""
        ...

    def take_in(
        self, pending: Sequence[Pending], place: Checkpoint | None, *, anew: bool = False
    ) -> None:
        """List run loops, and move the place on, in one transaction.

        Args:
            pending: each loop at most once.
            place: the new one; None: none is kept, and all is compared at the next start.
            anew: whether what was listed before is to go.
        """
        ...

    def settle(self, archived: Mapping[Key, int]) -> None:
        """Strike off run loops that are archived, each as of this change.

        One that has changed again since stays.
        """
        ...

    def failed(self, key: Key, problem: str) -> None:
        """Write down why a run loop could not be archived."""
        ...


class Ledger(Protocol):
    """Remembered run loops, whole, and the parts that are written in one transaction with them."""

    @property
    def words(self) -> LexicalIndex:
        """Finds segments by their words."""
        ...

    @property
    def segments(self) -> SegmentReader:
        """The segments that run loops were cut into."""
        ...

    @property
    def embedding(self) -> EmbeddingStore:
        """The vectors of segments."""
        ...

    @property
    def pending(self) -> PendingRunLoops:
        """How far the change feed was read, and what of it is yet to be archived."""
        ...

    @property
    def facts(self) -> FactStore:
        """What people asked to be remembered."""
        ...

    @property
    def notes(self) -> NoteStore:
        """What consolidation has written."""
        ...

    def open(self) -> None:
        """Open the file, or create it."""
        ...

    def close(self) -> None:
        """Close the file, after the write that is under way."""
        ...

    def archive(self, *run_loops: RunLoop) -> int:
        """Remember run loops as they are now, each id at most once, in one transaction.

        Returns:
            How many segments are new or changed; 0 when the loops were known just so.

        Raises:
            InvalidInputError: the text of one is not valid Unicode; none was written.
        """
        ...

    def forget(self, owner: str, run_loop_ids: Sequence[str], changed: Sequence[RunLoop]) -> Gone:
        """Let nothing be left of some run loops, nor of what others held before.

        Args:
            owner: whose.
            run_loop_ids: loops that are gone.
            changed: loops as they are now; those that are not remembered stay so.
        """
        ...

    def scrub(self) -> bool:
        """Write the file anew without what was deleted; whether its log could be emptied too."""
        ...

    def run_loop(self, run_loop_id: str, *, owner: str) -> RunLoop | None:
        """A remembered run loop; None when this owner has none of that id."""
        ...

    def summary(self, run_loop_id: str, *, owner: str) -> RunLoopSummary | None:
        """A remembered run loop without its words; None when this owner has none of that id."""
        ...

    def successors(self, run_loop_id: str, *, owner: str) -> list[RunLoopSummary]:
        """The remembered run loops that took this one up again, or forked from it; oldest first."""
        ...

    def finished(self, run_loop_ids: Iterable[str]) -> frozenset[str]:
        """Which of these run loops, of whatever owner, are remembered and can change no more."""
        ...

    def outlines(self) -> dict[tuple[str, str], Outline]:
        """How far all remembered run loops, of all owners, have come; by owner and id."""
        ...

    def count(self) -> tuple[int, int]:
        """How many run loops and segments there are, of all owners."""
        ...
