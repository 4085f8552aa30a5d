"""What long-term memory has yet to archive, as far as it has read the change feed, and when.

All of it is in the ledger's file (`PendingRunLoops`); when each run loop's turn comes is known in
the process alone, and told anew at each start.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from anyio import to_thread

from service.domain.errors import Problem, RondoError
from service.memory.journal.change_feed import Change
from service.memory.journal.protocol import Journal
from service.memory.ledger.protocol import Key, Pending
from service.memory.long_term import LongTermMemory

log = logging.getLogger(__name__)

_PAGE = 1000  # changes


def _coalesced(changes: Iterable[Change]) -> dict[Key, Pending]:
    """The run loops that these changes are of, each once."""
    pending: dict[Key, Pending] = {}
    for each in changes:
        key = (each.owner, each.run_loop_id)
        before = pending.get(key)
        lost_words = each.lost_words or (before is not None and before.lost_words)
        pending[key] = Pending(*key, each.number, lost_words)
    return pending


class Backlog:
    """The run loops that are listed, and those of them whose turn it is."""

    def __init__(self, memory: LongTermMemory, journal: Journal) -> None:
        self._memory = memory
        self._journal = journal
        self._listed = memory.pending
        self.place = 0
        """The newest change that was read."""
        self._keeps_place = True
        self._pending: dict[Key, Pending] = {}
        """All that is listed."""
        self.due: dict[Key, None] = {}
        """Those to be archived as soon as possible, in this order."""
        self.resting: set[Key] = set()
        """Those that have come to rest just now."""
        self._archived: dict[Key, int] = {}
        """What was archived as of a change that is not read yet."""
        self._expected: set[Key] = set()
        """What somebody else is about to archive."""

    async def is_in_step(self) -> bool:
        """Whether all that was read is in this journal still: else it is to be rebuilt.

        Raises:
            StorageError: a file cannot be read.
        """
        place = await to_thread.run_sync(self._listed.checkpoint)
        if place is None:
            return False
        return await to_thread.run_sync(self._journal.changes.matches, place)

    async def begin(self, *, rebuild: bool, keep_place: bool) -> None:
        """Take up what an earlier process left. See `Archivist.open`.

        Raises:
            StorageError: a file cannot be read or written; it can be tried again.
        """
        self._keeps_place = keep_place
        if rebuild:
            await self._rebuild()
        else:
            place = await to_thread.run_sync(self._listed.checkpoint)
            self.place = 0 if place is None else place.number
            for each in await to_thread.run_sync(self._listed.all):
                self._pending[each.key] = each
        await self.read()
        await self._schedule(self._pending)

    async def _rebuild(self) -> None:
        journal = self._journal
        outlines = await to_thread.run_sync(journal.run_loops.outlines)
        place, last = 0, journal.changes.last
        if await to_thread.run_sync(self._listed.checkpoint) is not None:
            place = last  # no loop can be told to be as it was when it was archived
        else:
            # It has never read the feed: what looks the same is, but for what the feed says.
            outlines = await self._memory.outdated(outlines)
        pending = {each.key: Pending(*each.key, last) for each in outlines}
        await self._list(pending, place=place, anew=True)

    async def read(self) -> None:
        """List what has changed since, and move the place on.

        Raises:
            StorageError: a file cannot be read or written; the place stays.
        """
        while changes := await self._next_changes():
            pending = {
                key: each
                for key, each in _coalesced(changes).items()
                if self._archived.get(key, 0) < each.change
            }
            await self._list(pending, place=changes[-1].number)
            await self._schedule(pending)
            self._archived = {k: n for k, n in self._archived.items() if n > self.place}

    async def _next_changes(self) -> list[Change]:
        feed = self._journal.changes
        return await to_thread.run_sync(lambda: feed.read(after=self.place, limit=_PAGE))

    async def _list(
        self, pending: Mapping[Key, Pending], *, place: int, anew: bool = False
    ) -> None:
        def write() -> None:
            checkpoint = self._journal.changes.checkpoint(place) if self._keeps_place else None
            self._listed.take_in(list(pending.values()), checkpoint, anew=anew)

        await to_thread.run_sync(write)
        self.place = place
        if anew:
            self._pending.clear()
        for key, each in pending.items():
            self._pending[key] = each._replace(
                lost_words=each.lost_words or self.has_lost_words(key)
            )

    async def _schedule(self, keys: Iterable[Key]) -> None:
        """Say when those that are listed are archived: now, after a while, or once they rest."""
        at_work: list[Key] = []
        for key in keys:
            state = self._journal.state(key[1])
            if key in self._expected:
                continue
            if state is None or self.has_lost_words(key):
                self.want(key)
            elif state.status == "running":
                at_work.append(key)
            else:
                self.resting.add(key)
        if at_work:
            # What goes on is not remembered as finished any more: its second end will be.
            ids = [run_loop_id for _, run_loop_id in at_work]
            lacking = frozenset(await self._memory.lacking(ids))
            for key in at_work:
                if key[1] not in lacking:
                    self.want(key)

    def has_lost_words(self, key: Key) -> bool:
        """Whether words were forgotten in a listed run loop."""
        listed = self._pending.get(key)
        return listed is not None and listed.lost_words

    def want(self, key: Key) -> None:
        """It is a run loop's turn."""
        self.resting.discard(key)
        self.due[key] = None

    @contextmanager
    def expecting(self, keys: Iterable[Key]) -> Generator[None]:
        """Within it somebody else writes to run loops, and then archives them."""
        expected = set(keys)
        self._expected |= expected
        try:
            yield
        finally:
            self._expected -= expected
            for key in expected & self._pending.keys():
                self.want(key)

    async def settle(self, archived: Mapping[Key, int]) -> None:
        """These are archived, each as of this change.

        Raises:
            StorageError: the disk refuses; they stay listed.
        """
        listed = {k: n for k, n in archived.items() if k in self._pending}
        if listed:
            await to_thread.run_sync(self._listed.settle, listed)
        for key, number in archived.items():
            if number > self.place:
                self._archived[key] = number
            if key in self._pending and self._pending[key].change <= number:
                del self._pending[key]
            if key not in self._pending:
                self.due.pop(key, None)
                self.resting.discard(key)

    async def failed(self, key: Key, problem: Problem) -> None:
        """Keep a run loop listed, with what keeps it from being archived."""
        self.want(key)
        try:
            await to_thread.run_sync(self._listed.failed, key, problem.in_words())
        except RondoError as error:
            log.warning("nor can that be written down: %s", error.problem().in_words())
