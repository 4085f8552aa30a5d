"""What forgetting does to the journal: it finds histories, takes words out, and keeps receipts.

All that goes leaves in one transaction with the receipt, which names what is left to do elsewhere;
so a crash at any later moment leaves behind what the next start needs to finish. A receipt holds
numbers and ids, none of the words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from service.domain.forgetting_terms import ForgetReceipt
from service.domain.history.events import EventBody
from service.domain.history.references import Quotation
from service.domain.history.state import RunLoopState


@dataclass(frozen=True, slots=True)
class Record:
    """A receipt, and what finishing needs to know besides."""

    owner: str
    receipt: ForgetReceipt
    changed: tuple[str, ...]
    """Run loops that stayed and lost words: to be archived anew."""


class Removal(NamedTuple):
    """How much went with a run loop."""

    events: int
    messages: int
    usage: int
    approvals: int
    schedules: int


class Rewriter(Protocol):
    """Takes words out of the journal, within one transaction. The methods block."""

    def remove_loop(self, run_loop_id: str, *, owner: str) -> Removal:
        """Let nothing be left of a run loop, nor of the messages that are in it."""
        ...

    def rewrite_loop(
        self,
        after: RunLoopState,
        bodies: Mapping[int, EventBody],
        quotations: Mapping[int, Sequence[Quotation]],
    ) -> None:
        """Let events of a run loop be as these.

        Args:
            after: the run loop then.
            bodies: by number, what is written.
            quotations: by number, which texts of these stand elsewhere.
        """
        ...

    def remove_messages(
        self, message_ids: Iterable[str], *, owner: str, run_loop_id: str | None = None
    ) -> int:
        """Let nothing be left of messages in the inbox, not even their keys; how many there were.

        Args:
            message_ids: theirs.
            owner: whose.
            run_loop_id: only those that are in this loop; None: wherever they are.
        """
        ...

    def remove_approvals(
        self,
        *,
        owner: str,
        scopes: Collection[str] | None = None,
        run_loop_id: str | None = None,
    ) -> int:
        """Take back standing approvals (None: all) given in a loop (None: in any); how many."""
        ...

    @property
    def approvals(self) -> int:
        """How many standing approvals have gone as nothing that stays of their run loop is called
        with the arguments that they were narrowed to."""
        ...

    @property
    def schedules(self) -> int:
        """How many schedules have gone with words that were taken out of run loops that stay."""
        ...

    def remove_schedules(self, *, owner: str) -> int:
        """Let nothing be left of an owner's schedules; how many there were."""
        ...

    def keep(self, record: Record) -> None:
        """Write the receipt down."""
        ...


class Receipts(Protocol):
    """What was forgotten, and what of it is left to do.

    All but `keep` block; all raise StorageError when the disk refuses.
    """

    async def keep(self, record: Record) -> None:
        """Keep a record durably, in place of the one of the same id."""
        ...

    def unfinished(self) -> list[Record]:
        """The records of which something is left to do, oldest first."""
        ...

    def find(self, receipt_id: str) -> Record | None:
        """One record; None when there is none of this id."""
        ...

    def of(self, owner: str, *, limit: int) -> list[ForgetReceipt]:
        """An owner's receipts, newest first."""
        ...

    def forgotten_whole(self) -> frozenset[tuple[str, str]]:
        """Owners and ids of all run loops that were ever forgotten whole."""
        ...


class Histories(Protocol):
    """What forgetting asks of all histories, besides reading them. The methods block; all raise
    StorageError when the file cannot be read."""

    def owner_of(self, run_loop_id: str) -> str | None:
        """Whose a run loop is; None when there is none of this id."""
        ...

    def ids(
        self, owner: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[str]:
        """The ids of an owner's run loops that something may have happened in within a time."""
        ...

    def imported(self, run_loop_ids: Iterable[str]) -> frozenset[str]:
        """Which of these run loops came in from a file."""
        ...

    def holding(self, owner: str, forms: Iterable[str]) -> list[str]:
        """The ids of an owner's run loops of which some event may hold one of these texts.

        Capitals count for nothing; those beyond ASCII are left to a closer look.
        """
        ...

    def unread_state(self, run_loop_id: str) -> RunLoopState:
        """What lists tell of a run loop whose history cannot be read."""
        ...
