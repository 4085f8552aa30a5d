"""The feed: live events for any number of readers, none of whom can slow the others.

Each reader has a mailbox of bounded size. A reader that falls behind loses its mailbox, not its
place: it reads what it missed from the journal, by sequence number, and goes on live from there.
Only transient deltas are lost that way; what they add up to is in the journal.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable

import anyio

from service.domain.events import Event
from service.memory.journal import Journal

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
        self._run_loop_id = run_loop_id
        self._size = size
        self._events: deque[Event] = deque()
        self._lagged = False
        self._lock = threading.Lock()

    def put(self, event: Event) -> None:
        """Take an event that this reader wants; forget everything when there is no room."""
        if self._run_loop_id is not None and event.run_loop_id != self._run_loop_id:
            return
        if self._owner is not None and event.owner != self._owner:
            return
        with self._lock:
            if len(self._events) >= self._size:
                self._events.clear()
                self._lagged = True
            if not self._lagged:
                self._events.append(event)
        self._wake()

    def take(self) -> tuple[list[Event], bool]:
        """All that waits, and whether something was lost before it."""
        with self._lock:
            events, lagged = list(self._events), self._lagged
            self._events.clear()
            self._lagged = False
        return events, lagged


class Feed:
    """Hands each published event to all who listen."""

    def __init__(self, journal: Journal, *, mailbox_size: int = _MAILBOX_SIZE) -> None:
        self._journal = journal
        self._mailbox_size = mailbox_size
        # Replaced, never changed in place: publishing may go on while readers come and go.
        self._mailboxes: tuple[Mailbox, ...] = ()
        self._changing = threading.Lock()

    def publish(self, events: Iterable[Event]) -> None:
        """Hand out events. Never blocks."""
        for event in events:
            for mailbox in self._mailboxes:
                mailbox.put(event)

    def open(self, mailbox: Mailbox) -> None:
        """Begin to fill a mailbox."""
        with self._changing:
            self._mailboxes = (*self._mailboxes, mailbox)

    def close(self, mailbox: Mailbox) -> None:
        """Stop filling a mailbox."""
        with self._changing:
            self._mailboxes = tuple(other for other in self._mailboxes if other is not mailbox)

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
        bell = anyio.Event()

        def wake() -> None:
            bell.set()

        mailbox = Mailbox(wake=wake, owner=owner, run_loop_id=run_loop_id, size=self._mailbox_size)
        self.open(mailbox)
        last = self._journal.last_seq if after is None else after
        behind = after is not None
        try:
            while True:
                if behind:
                    page = await self._journal.read(
                        owner=owner, run_loop_id=run_loop_id, after=last, limit=_PAGE
                    )
                    for event in page:
                        last = event.seq or last
                        yield event
                    behind = len(page) == _PAGE
                    continue
                bell = anyio.Event()
                events, behind = mailbox.take()
                for event in events:
                    if event.seq is None:
                        yield event
                    elif event.seq > last:
                        last = event.seq
                        yield event
                if not events and not behind:
                    await bell.wait()
        finally:
            self.close(mailbox)
