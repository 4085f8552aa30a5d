"""Notes: sentences on a person, a project or a topic, each citing the segments that it rests on.

Only consolidation writes them, and no sentence outlives what it cites.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, get_args

from service.domain.anchors import MemoryNote, Segment
from service.memory.memory_tuning import NOTES_FOUND

NoteKind = Literal["person", "project", "topic"]
NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)


class UnreadSegment(NamedTuple):
    """A segment from which no note was written yet."""

    number: int
    """Its row in the ledger."""
    text_hash: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class NewSentence:
    """A sentence for a note."""

    text: str
    cited: tuple[UnreadSegment, ...]
    leaning: tuple[UnreadSegment, ...] = ()
    """Where else words of it, or of its subject, come from: it falls with these too."""
    replaces: tuple[str, ...] = ()
    """Sentences of the same note, word for word, that it stands in the place of."""


@dataclass(frozen=True, slots=True)
class NewSentences:
    """Sentences on one subject."""

    kind: NoteKind
    subject: str
    sentences: tuple[NewSentence, ...]


class NoteStore(Protocol):
    """The notes of all owners. The methods block and may be called from any thread; all raise
    StorageError when the disk refuses."""

    def of(self, owner: str) -> list[MemoryNote]:
        """All notes of an owner, those written last first."""
        ...

    def search(self, query: str, *, owner: str, limit: int = NOTES_FOUND) -> list[MemoryNote]:
        """The notes on what a query names, or that share enough of its words, best first.

        A note is given with its sentences that fit best, in the order in which they were written.
        """
        ...

    def may_be_there(self) -> bool:
        """False once it is known that there are no notes. Asks nobody."""
        ...

    def any(self) -> bool:
        """Whether there are notes at all. Asks the file only once while there are none."""
        ...

    def newest_segment(self) -> int:
        """The number of the newest segment of all owners; it grows whenever there is a new one."""
        ...

    def owners(self) -> list[str]:
        """Everyone who has anything remembered."""
        ...

    def unread(self, owner: str, *, limit: int) -> list[UnreadSegment]:
        """What was said and not yet read for notes, in the order in which it came to memory."""
        ...

    def unread_count(self, owner: str, *, most: int) -> int:
        """How many segments are unread; counts up to `most`."""
        ...

    def write(
        self,
        owner: str,
        notes: Iterable[NewSentences],
        *,
        read: Sequence[UnreadSegment],
        at: datetime | None = None,
    ) -> int:
        """Add sentences, and mark what was read for them, in one transaction.

        A sentence that cites a segment which was forgotten or has changed meanwhile is left out, as
        is one that its note has already.

        Returns:
            How many sentences were added.
        """
        ...

    def remove(self, note_id: str, *, owner: str) -> MemoryNote:
        """Delete a note; what it was written from stays, and is not read for notes again.

        Raises:
            NotFoundError: the owner has no such note.
        """
        ...
