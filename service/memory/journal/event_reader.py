"""What can be read of the journal: events, states, and what lists tell of run loops."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypedDict, Unpack

from service.domain.history.events import Event, EventBody
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoopSummary, Status
from service.memory.journal.kept_words import Words
from service.memory.journal.rewriting import Histories


class EventSelection(TypedDict, total=False):
    """Which events are to be read: those to which all of this applies. What is left out, or None,
    keeps none out."""

    owner: str | None
    run_loop_id: str | None
    kind: str | None
    """Their type."""
    after: int
    """Only those with a greater ``seq``."""
    holding: str | None
    """Only those whose rows hold this text: not those that refer to it."""
    limit: int | None
    """At most so many, the first."""
    news: bool
    """Whether imports are left out, which are not announced."""


class Outline(NamedTuple):
    """How far a run loop has come. The journal's and the ledger's are equal when both are in step.

    Ids and counts alone would not do: a loop can be taken up again and fail where it failed before.
    """

    owner: str
    id: str
    status: str
    iterations: int
    ended_at: int | None
    """Milliseconds since the epoch; None while it is open."""

    @property
    def key(self) -> tuple[str, str]:
        """Owner and id."""
        return (self.owner, self.id)


class RunLoopIndex(Protocol):
    """One line for each run loop, for lists. All raise StorageError when they cannot be read."""

    async def summaries(
        self,
        *,
        owner: str,
        statuses: frozenset[Status] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before_id: str | None = None,
        limit: int = 50,
    ) -> list[RunLoopSummary]:
        """Run loops of an owner, newest first.

        Args:
            owner: whose.
            statuses: only these; None for all.
            since: created at or after.
            until: created before.
            before_id: go on after this loop (paging).
            limit: at most so many.
        """
        ...

    async def oldest(
        self,
        *,
        owner: str,
        since: datetime | None = None,
        until: datetime | None = None,
        run_loop_id: str | None = None,
        after: tuple[int, str] | None = None,
        limit: int = 500,
    ) -> list[tuple[int, str]]:
        """Run loops of an owner, oldest first: when each was opened (milliseconds), and its id.

        Args:
            owner: whose.
            since: opened at or after.
            until: opened before.
            run_loop_id: only this one.
            after: go on behind this one (paging); it need not be there any more.
            limit: at most so many.
        """
        ...

    async def count(
        self,
        *,
        owner: str,
        since: datetime | None = None,
        until: datetime | None = None,
        run_loop_id: str | None = None,
    ) -> int:
        """How many run loops `oldest` gives in all."""
        ...

    async def check_owner(self, run_loop_id: str, *, owner: str | None) -> None:
        """See to it that a loop is there, and is this owner's (None: anybody's).

        Raises:
            NotFoundError: this owner has no such loop.
        """
        ...

    def outlines(self) -> list[Outline]:
        """All loops, of all owners, oldest first. Blocks."""
        ...


class EventReader(Protocol):
    """Reads events, and the states that they lead to."""

    @property
    def run_loops(self) -> RunLoopIndex:
        """What lists tell of run loops."""
        ...

    @property
    def words(self) -> Words:
        """Renders what rows refer to."""
        ...

    @property
    def histories(self) -> Histories:
        """Finds histories by what they hold."""
        ...

    def states(self, owner: str | None = None) -> list[RunLoopState]:
        """The states of the active loops, those that changed last first; from any thread."""
        ...

    def state(self, run_loop_id: str) -> RunLoopState | None:
        """The state of an active loop; None when it is not active."""
        ...

    async def read(self, **filters: Unpack[EventSelection]) -> list[Event]:
        """Events in order, of one loop or of all; those that are not wanted are not parsed.

        Raises:
            StorageError: the file cannot be read.
            ValueError: an event cannot be read: it may be of a newer version.
        """
        ...

    def read_blocking(self, **filters: Unpack[EventSelection]) -> list[Event]:
        """As `read`, in the calling thread, whichever that is."""
        ...

    async def decided_last(self, run_loop_ids: Sequence[str]) -> dict[str, list[EventBody]]:
        """Of each of these loops its newest ``route.decided``, and each ``message.moved`` since.

        A loop without a decision has all of its moves; one with neither is left out. That takes
        time in proportion to the histories of these loops.
        """
        ...

    async def replay(self, run_loop_id: str, *, owner: str | None = None) -> RunLoopState:
        """The state of any loop, active or ended.

        Raises:
            NotFoundError: this owner has no such loop.
            StorageError: its history cannot be read.
        """
        ...
