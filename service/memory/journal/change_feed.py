"""The change feed: what has changed in the journal, in the order of commits.

Events have numbers, too, but not all that changes is a new event: an import brings in what happened
long ago, and forgetting rewrites and removes. So changes are numbered by themselves, one for each
run loop of a commit, written in the same transaction. Whoever lives off changes reads them here,
from its own place on, and may lag behind; a durable reader keeps its place, a `Checkpoint`, in its
own store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import anyio

from service.domain.history.events import Event
from service.domain.history.references import Quotation
from service.domain.history.state import RunLoopState

ChangeKind = Literal["appended", "imported", "rewritten", "removed"]
"""``rewritten``: a run loop stays and lost words; ``removed``: it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one run loop."""

    number: int
    at: int
    """Milliseconds since the epoch."""
    kind: ChangeKind
    owner: str
    run_loop_id: str
    first_seq: int | None = None
    """The first event that was written; None: none was."""
    last_seq: int | None = None
    copied: bool = False
    """Whether the events are a fork's beginning: of these only the first happened just now."""

    @property
    def lost_words(self) -> bool:
        """Whether words were forgotten."""
        return self.kind in ("rewritten", "removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Change):
    """What an append wrote, and the state that it led to."""

    events: tuple[Event, ...]
    state: RunLoopState
    quotations: Mapping[int, Sequence[Quotation]] = field(default_factory=dict)
    """By the place of an event: which of its texts are kept as references."""

    @property
    def news(self) -> tuple[Event, ...]:
        """The events that happened just now, and did not only come along from another loop."""
        return self.events[:1] if self.copied else self.events


def rests(change: Change) -> bool:
    """Whether a run loop has come to rest by this change."""
    return isinstance(change, Commit) and change.state.status == "idle"


class Checkpoint(NamedTuple):
    """How far a durable reader has come, in a way that another journal does not match."""

    journal_id: str
    number: int
    """The newest change that was taken in; 0: none yet."""
    hash: bytes
    """Of that change."""


class ChangeFeed(ABC):
    """Reads changes back, and wakes subscribers. Who keeps the journal writes them down."""

    def __init__(self) -> None:
        self._last = 0
        self._last_lost_words = 0
        # Replaced, never changed in place: readers come and go while a commit tells them.
        self._subscriptions: dict[str, Subscription] = {}

    @property
    def last(self) -> int:
        """The number of the newest change; 0: there is none yet."""
        return self._last

    @property
    def last_lost_words(self) -> int:
        """The newest change since the start by which words were forgotten; 0: there was none."""
        return self._last_lost_words

    def publish(self, changes: Sequence[Change]) -> None:
        """Take over changes whose transaction has been committed, and wake who wants them."""
        for each in changes:
            self._last = each.number
            if each.lost_words:
                self._last_lost_words = each.number
            for subscription in self._subscriptions.values():
                subscription.see(each)

    @abstractmethod
    def read(self, *, after: int, limit: int) -> list[Change]:
        """The next changes after a number. Blocks.

        Raises:
            StorageError: the file cannot be read.
        """

    @abstractmethod
    def checkpoint(self, number: int) -> Checkpoint:
        """The place behind a change that is there, or before all (0). Blocks.

        Raises:
            StorageError: the file cannot be read.
        """

    @abstractmethod
    def matches(self, checkpoint: Checkpoint) -> bool:
        """Whether all that a reader has taken in is in this journal, and no more. Blocks.

        Raises:
            StorageError: the file cannot be read.
        """

    # --- those who live off changes

    def subscribe(
        self, name: str, wants: Callable[[Change], bool], *, holds_words: bool = False
    ) -> Subscription:
        """Begin to read, from the newest change on.

        Args:
            name: of the reader; one that is there gives way to the new one.
            wants: whether a change concerns the reader. Called within the commit: it must neither
                block nor raise.
            holds_words: whether it holds words in the process's memory, until it is told that some
                were forgotten.
        """
        subscription = Subscription(self, name, wants, holds_words)
        self._subscriptions = {**self._subscriptions, name: subscription}
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a reader; nobody waits for it any more."""
        if self._subscriptions.get(subscription.name) is subscription:
            others = self._subscriptions.items()
            self._subscriptions = {name: each for name, each in others if each is not subscription}
        subscription.close()

    async def wait_until(self, name: str, number: int) -> None:
        """Wait until a reader, if it is there, has done with all changes up to a number."""
        subscription = self._subscriptions.get(name)
        if subscription is not None:
            await subscription.passed(number)

    async def wait_until_forgotten(self, number: int) -> None:
        """Wait until no reader in this process holds words that were forgotten by a change."""
        for each in self._subscriptions.values():
            if each.holds_words:
                await each.passed(number)

    def lags(self) -> dict[str, int]:
        """By how many changes each reader in this process is behind."""
        return {name: each.lag for name, each in self._subscriptions.items()}


class Subscription:
    """One reader of the change feed. What it has yet to see is known only as a range of numbers.

    Used in ``with``: on leaving it, nobody waits for it any more.
    """

    def __init__(
        self, feed: ChangeFeed, name: str, wants: Callable[[Change], bool], holds_words: bool
    ) -> None:
        self._feed = feed
        self.name = name
        self.holds_words = holds_words
        self._wants = wants
        self._oldest: int | None = None
        """The first change that it wants and has not done with."""
        self._newest = feed.last
        self._came = anyio.Event()
        self._went = anyio.Event()
        self._closed = False

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *error: object) -> None:
        self._feed.unsubscribe(self)

    @property
    def lag(self) -> int:
        """By how many changes it is behind; 0 where all since are none that it wants."""
        return 0 if self._oldest is None else self._feed.last - self._oldest + 1

    def see(self, change: Change) -> None:
        """A change was committed."""
        if self._wants(change):
            if self._oldest is None:
                self._oldest = change.number
            self._newest = change.number
            self._came.set()

    async def changed(self) -> int:
        """Wait until there is a change that it wants; the number of the newest one."""
        while self._oldest is None:
            self._came = anyio.Event()
            await self._came.wait()
        return self._newest

    def done(self, number: int) -> None:
        """It has done with all changes up to this one."""
        if self._oldest is not None and self._oldest <= number:
            self._oldest = None if self._newest <= number else number + 1
            self._went.set()
            self._went = anyio.Event()

    async def passed(self, number: int) -> None:
        """Wait until it has done with all that it wants up to a number."""
        while self._oldest is not None and self._oldest <= number and not self._closed:
            await self._went.wait()

    def close(self) -> None:
        """Let those go who wait for it."""
        self._closed = True
        self._went.set()


def numbered(
    after: int, changes: Iterable[tuple[ChangeKind, str, str]], *, at: int
) -> list[Change]:
    """Changes by which no event was written: kind, owner and run loop of each."""
    return [
        Change(number=number, at=at, kind=kind, owner=owner, run_loop_id=run_loop_id)
        for number, (kind, owner, run_loop_id) in enumerate(changes, start=after + 1)
    ]
