"""The feed: live events for any number of readers, none of whom can slow the others.

Each reader has a mailbox of bounded size. A reader that falls behind loses its mailbox, not its
place: it reads what it missed from the journal, by sequence number, and goes on live from there.
Only transient deltas are lost that way; what they add up to is in the journal. Who comes, or comes
back, in the middle of a message is given at once what has streamed of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

import anyio

from service.domain.history.events import (
    TERMINAL,
    Event,
    IterationAbandoned,
    IterationStarted,
    LLMFallback,
    LLMRetry,
    MessageCompleted,
    MessageDelta,
    MessageMoved,
    RunLoopInterrupted,
)
from service.memory.journal.change_feed import Change, Commit
from service.memory.journal.protocol import Journal

_MAILBOX_SIZE = 1024
_PAGE = 512


class Mailbox:
    """Events that wait for one reader. `put` never blocks; it may be called from any thread."""

    def __init__(
        self,
        *,
        wake: Callable[[], None],
        owner: str | None,
        run_loop_id: str | None,
        size: int = _MAILBOX_SIZE,
    ) -> None:
        self._wake = wake
        self._owner = owner
        self.run_loop_id = run_loop_id
        """Whose events it takes; None: all."""
        self._size = size
        self._events: deque[Event] = deque()
        self._lagged = False
        self._lock = threading.Lock()

    def put(self, event: Event) -> None:
        """Take an event that this reader wants; forget everything when there is no room."""
        if self._owner is not None and event.owner != self._owner:
            return
        with self._lock:
            if len(self._events) >= self._size:
                self._events.clear()
                self._lagged = True
            if not self._lagged:
                self._events.append(event)
        self._wake()

    def drop(self) -> None:
        """Discard what waits: the reader reads it from the journal, as it is there now."""
        with self._lock:
            self._events.clear()
            self._lagged = True
        self._wake()

    def take(self) -> tuple[list[Event], bool]:
        """All that waits, and whether something was lost before it."""
        with self._lock:
            events, lagged = list(self._events), self._lagged
            self._events.clear()
            self._lagged = False
        return events, lagged


@dataclass(slots=True)
class _Streaming:
    """A message that streams just now."""

    since: int
    """The newest event of the journal when it began: what ends it has a later number."""
    owner: str
    at: datetime
    texts: list[str] = field(default_factory=list)

    def event(self, run_loop_id: str) -> Event:
        """All that has streamed of it so far."""
        body = MessageDelta(text="".join(self.texts), whole=True)
        return Event(seq=None, at=self.at, owner=self.owner, run_loop_id=run_loop_id, body=body)


_ENDS_A_MESSAGE = (
    MessageCompleted,
    LLMRetry,
    LLMFallback,
    IterationStarted,
    IterationAbandoned,
    MessageMoved,
    RunLoopInterrupted,
    *TERMINAL,
)

_Mailboxes = Mapping[str | None, tuple[Mailbox, ...]]


def _with(mailboxes: _Mailboxes, mailbox: Mailbox) -> _Mailboxes:
    key = mailbox.run_loop_id
    return {**mailboxes, key: (*mailboxes.get(key, ()), mailbox)}


def _without(mailboxes: _Mailboxes, mailbox: Mailbox) -> _Mailboxes:
    key = mailbox.run_loop_id
    left = tuple(other for other in mailboxes.get(key, ()) if other is not mailbox)
    others = {each: held for each, held in mailboxes.items() if each != key}
    return {**others, key: left} if left else others


class Feed:
    """Hands each published event to all who listen."""

    def __init__(self, journal: Journal, *, mailbox_size: int = _MAILBOX_SIZE) -> None:
        self.journal = journal
        self.mailbox_size = mailbox_size
        # By the loop that they want, None for all. Replaced, never changed in place: publishing may
        # go on while readers come and go.
        self._mailboxes: _Mailboxes = {}
        self._changing = threading.Lock()
        self._streaming: dict[str, _Streaming] = {}
        """By run loop."""

    @property
    def readers(self) -> int:
        """How many read it just now, from first to last."""
        return sum(len(each) for each in self._mailboxes.values())

    def update(self, change: Change) -> None:
        """Hand out what is new in a change; hold nothing where words were forgotten."""
        if isinstance(change, Commit):
            self.publish(change.news)
        elif change.lost_words:
            self.drop()

    def publish(self, events: Iterable[Event]) -> None:
        """Hand out events, in time for those who want them. Never blocks."""
        for event in events:
            self._keep_streaming(event)
            mailboxes = self._mailboxes
            for mailbox in mailboxes.get(None, ()):
                mailbox.put(event)
            for mailbox in mailboxes.get(event.run_loop_id, ()):
                mailbox.put(event)

    def _keep_streaming(self, event: Event) -> None:
        if isinstance(event.body, MessageDelta):
            streaming = self._streaming.get(event.run_loop_id)
            if streaming is None:
                streaming = _Streaming(self.journal.last_seq, event.owner, event.at)
                self._streaming[event.run_loop_id] = streaming
            streaming.texts.append(event.body.text)
        elif isinstance(event.body, _ENDS_A_MESSAGE):
            self._streaming.pop(event.run_loop_id, None)

    def streaming(self, owner: str | None) -> dict[str, tuple[int, Event]]:
        """What has streamed of messages that are not complete, by run loop.

        Each with the number of an event of the journal: what ends the message has a later one.
        """
        return {
            run_loop_id: (each.since, each.event(run_loop_id))
            for run_loop_id, each in list(self._streaming.items())
            if owner in (None, each.owner)
        }

    def drop(self) -> None:
        """Hold no events: some have lost words. Readers go on from the journal."""
        self._streaming.clear()
        for mailboxes in self._mailboxes.values():
            for mailbox in mailboxes:
                mailbox.drop()

    def open(self, mailbox: Mailbox) -> None:
        """Begin to fill a mailbox."""
        with self._changing:
            self._mailboxes = _with(self._mailboxes, mailbox)

    def close(self, mailbox: Mailbox) -> None:
        """Stop filling a mailbox."""
        with self._changing:
            self._mailboxes = _without(self._mailboxes, mailbox)

    def narrow(self, mailbox: Mailbox, run_loop_id: str) -> None:
        """From now on, fill a mailbox with the events of one loop alone."""
        with self._changing:
            others = _without(self._mailboxes, mailbox)
            mailbox.run_loop_id = run_loop_id
            self._mailboxes = _with(others, mailbox)

    async def events(
        self,
        *,
        owner: str | None = None,
        run_loop_id: str | None = None,
        after: int | None = None,
    ) -> AsyncGenerator[Event]:
        """Events of one loop, or of all, without gap or repeat, for as long as the reader reads.

        Args:
            owner: only this owner's; None for all.
            run_loop_id: only this loop's; None for all.
            after: replay the journal from after this sequence number first; None: live only.
        """
        with Reader(self, owner=owner) as reader:
            async with aclosing(reader.events(run_loop_id=run_loop_id, after=after)) as events:
                async for event in events:
                    yield event


class Reader:
    """A place in the feed, held from ``with`` on: nothing that happens from then on is missed.

    What came before, and what found no room in the mailbox, is read from the journal.
    """

    def __init__(self, feed: Feed, *, owner: str | None) -> None:
        self._feed = feed
        self._owner = owner
        self._bell = anyio.Event()
        self._mailbox = Mailbox(
            wake=lambda: self._bell.set(), owner=owner, run_loop_id=None, size=feed.mailbox_size
        )
        self._horizon = 0
        self._begun: dict[str, tuple[int, Event]] = {}
        """What had streamed of messages before this reader could hear them."""

    def __enter__(self) -> Self:
        """Take the place."""
        self._feed.open(self._mailbox)
        self._listen_from_now()
        return self

    def __exit__(self, *error: object) -> None:
        """Give it up."""
        self._feed.close(self._mailbox)

    async def events(
        self, *, run_loop_id: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Event]:
        """What happened after a sequence number (None: since ``with``), and then what happens.

        May be called again, for another loop: what that did meanwhile is read from the journal.
        """
        last = self._horizon if after is None else after
        if run_loop_id is not None:
            turns = self._mailbox.run_loop_id not in (None, run_loop_id)
            self._feed.narrow(self._mailbox, run_loop_id)
            if turns:
                self._listen_from_now()
        while True:
            while last < self._horizon:
                page = await self._feed.journal.read(
                    owner=self._owner,
                    run_loop_id=run_loop_id,
                    after=last,
                    limit=_PAGE,
                    news=run_loop_id is None,
                )
                for event in page:
                    if event.seq is not None and event.seq <= self._horizon:
                        self._see(event)
                        yield event
                last = self._horizon if len(page) < _PAGE else page[-1].seq or last
            for event in self._take_begun(run_loop_id):
                yield event
            self._bell = anyio.Event()
            events, lagged = self._mailbox.take()
            if lagged:
                # All up to here comes from the journal, all from here on from the mailbox.
                self._listen_from_now()
                continue
            for event in events:
                if run_loop_id is not None and event.run_loop_id != run_loop_id:
                    continue
                if event.seq is not None:
                    if event.seq <= last:
                        continue
                    last = event.seq
                yield event
            if not events:
                await self._bell.wait()

    def _listen_from_now(self) -> None:
        """What is published from here on is in the mailbox; all before it is not.

        No await may come between this and the emptying of the mailbox: deltas are published by
        other tasks of the same thread.
        """
        self._horizon = self._feed.journal.last_seq
        self._begun = self._feed.streaming(self._owner)

    def _see(self, event: Event) -> None:
        """Leave out what had streamed of a message that the journal has whole."""
        since, _ = self._begun.get(event.run_loop_id, (None, event))
        if since is None or event.seq is None or event.seq <= since:
            return
        if isinstance(event.body, _ENDS_A_MESSAGE):
            del self._begun[event.run_loop_id]

    def _take_begun(self, run_loop_id: str | None) -> list[Event]:
        begun, self._begun = self._begun, {}
        return [
            event
            for each, (_, event) in begun.items()
            if run_loop_id is None or each == run_loop_id
        ]
