"""Short-term memory: the run loops that are active now, as an observable store.

The journal holds their states, and replaces them within each commit; `update` is called with each
change right after that, so that whoever has written reads what they wrote. Subscribers run on a
thread of their own each, so that a slow one slows nobody:

- `active` and `observe` give the newest state, and skip states that a slow subscriber missed;
- `events` gives every journaled event, from the journal where a slow subscriber fell behind.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import reactivex
from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import Disposable

from service.domain.history.events import Event
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.journal.change_feed import Change
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


class ShortTermMemory:
    """The active run loops."""

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._feed = feed
        self._subscribers: tuple[Subscriber[Any], ...] = ()
        self._changing = threading.Lock()

    # --- the store

    def get_active(self, owner: str | None = None) -> tuple[RunLoop, ...]:
        """The active loops, those that changed last first."""
        return tuple(state.run_loop() for state in self.states(owner))

    def get(self, run_loop_id: str) -> RunLoop | None:
        """An active loop; None when it is not active."""
        state = self._journal.state(run_loop_id)
        return None if state is None else state.run_loop()

    def states(self, owner: str | None = None) -> list[RunLoopState]:
        """The states of the active loops, those that changed last first."""
        return self._journal.states(owner)

    def state(self, run_loop_id: str) -> RunLoopState | None:
        """The state of an active loop; None when it is not active."""
        return self._journal.state(run_loop_id)

    def update(self, change: Change) -> None:
        """Tell subscribers of a change that was committed."""
        if change.kind == "imported":
            return  # that is no news, and none of those is active
        for subscriber in self._subscribers:
            subscriber.wake()
        self._feed.update(change)

    # --- observing it

    @property
    def active(self) -> Observable[tuple[RunLoop, ...]]:
        """The active loops: at once, and whenever one changes."""
        return self._observable(lambda observer: StateSubscriber(self.get_active, observer))

    @property
    def active_states(self) -> Observable[tuple[RunLoopState, ...]]:
        """As `active`, their states: these take no time to make."""
        return self._observable(
            lambda observer: StateSubscriber(lambda: tuple(self.states()), observer)
        )

    def observe(self, run_loop_id: str) -> Observable[RunLoop | None]:
        """One loop: at once, and whenever it changes; once it has ended None, and no more."""
        return self._observable(
            lambda observer: StateSubscriber(lambda: self.get(run_loop_id), observer)
        )

    def events(self, run_loop_id: str | None = None) -> Observable[Event]:
        """The events of one loop, or of all, from now on; each journaled one exactly once.

        Of a fork's beginning, which is a copy, only ``run_loop.started`` counts as an event.
        """

        return self._observable(
            lambda observer: EventSubscriber(self._journal, self._feed, observer, run_loop_id)
        )

    def close(self) -> None:
        """Complete all subscriptions: nothing more will come."""
        for subscriber in self._subscribers:
            subscriber.complete()

    def _observable(self, make: Callable[[ObserverBase[T]], Subscriber[T]]) -> Observable[T]:
        def subscribe(
            observer: ObserverBase[T], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            subscriber = make(observer)
            with self._changing:
                self._subscribers = (*self._subscribers, subscriber)
            subscriber.start()

            def dispose() -> None:
                with self._changing:
                    self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)
                subscriber.stop()

            return Disposable(dispose)

        return reactivex.create(subscribe)
