"""Subscribers of observables, each on a thread of its own, so that a slow one slows nobody."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex.abc import ObserverBase

from service.domain.history.events import Event
from service.memory.journal.event_feed import Feed, Mailbox
from service.memory.journal.protocol import Journal

log = logging.getLogger(__name__)

T = TypeVar("T")


class Subscriber(ABC, Generic[T]):
    """A thread that hands values to an observer whenever it is woken."""

    def __init__(self, observer: ObserverBase[T]) -> None:
        self._observer = observer
        self._bell = threading.Event()
        self._stopped = False
        self._completing = False

    @abstractmethod
    def _hand_out(self) -> None: ...

    def start(self) -> None:
        """Begin to hand out values."""
        threading.Thread(target=self._run, name="rondo-subscriber", daemon=True).start()

    def wake(self) -> None:
        """There may be something new. Never blocks."""
        self._bell.set()

    def complete(self) -> None:
        """Hand out what is there, and then tell the observer that nothing more will come."""
        self._completing = True
        self._bell.set()

    def stop(self) -> None:
        """Hand out nothing more."""
        self._stopped = True
        self._bell.set()

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._bell.clear()
                last = self._completing
                self._hand_out()
                if last and not self._stopped:
                    self.stop()
                    self._observer.on_completed()
                self._bell.wait()
        except Exception as error:
            log.exception("a subscriber raised; it is told, and gets nothing more")
            self.stop()
            self._observer.on_error(error)


class StateSubscriber(Subscriber[T]):
    """Hands out the newest state; states that came and went meanwhile are skipped."""

    def __init__(self, read: Callable[[], T], observer: ObserverBase[T]) -> None:
        super().__init__(observer)
        self._read = read

    def _hand_out(self) -> None:
        if self._completing:
            return  # the newest state was handed out before
        value = self._read()
        self._observer.on_next(value)
        if value is None:
            self.complete()  # what was observed has ended


class EventSubscriber(Subscriber[Event]):
    """Hands out events; those that found no room in the mailbox come from the journal."""

    def __init__(
        self,
        journal: Journal,
        feed: Feed,
        observer: ObserverBase[Event],
        run_loop_id: str | None,
    ) -> None:
        super().__init__(observer)
        self._journal = journal
        self._feed = feed
        self._run_loop_id = run_loop_id
        self._mailbox = Mailbox(wake=self.wake, owner=None, run_loop_id=run_loop_id)
        feed.open(self._mailbox)
        # Only now: what is journaled between the two lines is in the mailbox, and not lost.
        self._last = journal.last_seq

    def stop(self) -> None:
        """Hand out nothing more, and keep nothing more."""
        self._feed.close(self._mailbox)
        super().stop()

    def _hand_out(self) -> None:
        events, lagged = self._mailbox.take()
        if lagged:
            events = self._journal.read_blocking(
                run_loop_id=self._run_loop_id,
                after=self._last,
                news=self._run_loop_id is None,
            )
        for event in events:
            if self._stopped:
                return
            if event.seq is not None:
                if event.seq <= self._last:
                    continue
                self._last = event.seq
            self._observer.on_next(event)
