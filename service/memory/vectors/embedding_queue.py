"""Carries segments to the vector index: embedded, kept in the ledger, put into the index, marked.

Each of these is done before the next begins, and can be done again: a crash between any two leaves
nothing lost and nothing doubled. The same steps build a new generation beside the old one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import ConflictError, EmbeddingError, IndexDamagedError
from service.memory.memory_tuning import (
    EMBEDDING_BATCH,
    EMBEDDING_BATCH_TOKENS,
    INDEX_BATCH,
    INDEXED_AFTER,
)
from service.memory.protocol import Doing, Embedded, Progress
from service.memory.vectors import token_codes
from service.memory.vectors.dense_search import DenseSide
from service.memory.vectors.embedding_store import PendingSegment
from service.memory.vectors.index_keeper import IndexKeeper, OpenGeneration

log = logging.getLogger(__name__)

_DROPPED_AT_ONCE = 500
_DAMAGED_IN_A_ROW = 3
_RATE_SECONDS = 60.0
PENDING_COUNTED = 1_000
"""Up to how many waiting segments are counted for a search: it shall not wait for more."""


class EmbeddingQueue:
    """What waits for the vector index. The methods block; one thread at a time calls `step`."""

    def __init__(self, keeper: IndexKeeper, dense: DenseSide | None) -> None:
        """Name the parts; without a dense side there is only tidying to do."""
        self._keeper = keeper
        self._states = keeper.states
        self._rows = keeper.states.generations
        self._contents, self._scrubs = keeper.states.contents, keeper.states.scrubs
        self._dense = dense
        self._asking = threading.Lock()
        self._embedded_up_to = 0
        self._coded_up_to = 0
        self._refused: dict[int, str] = {}  # owners, by the numbers of segments
        self._not_indexed = 0
        self._damaged = 0
        self._pace: deque[tuple[float, int]] = deque()
        self._coding_pace: deque[tuple[float, int]] = deque()
        self._lacks_codes = False
        self.embedded = 0
        """How many segments this queue has embedded since it was made."""

    def load(self) -> None:
        """Load the embedder and open the index, once; see whether it holds what the ledger says.

        Raises:
            EmbeddingError: the embedder cannot be used.
            StorageError: the index or the ledger cannot be opened.
        """
        if self._dense is not None:
            self._dense.load()
        self._keeper.sync(self._embedder, coding=self._coding)

    def step(self) -> bool:
        """Do the next small piece of what is to be done, in less than about two seconds.

        Returns:
            Whether there may be more.

        Raises:
            EmbeddingError: the embedder failed; nothing was marked.
            StorageError: the index or the ledger refused.
        """
        self._keeper.sync(self._embedder, coding=self._coding)
        opened = [each for each in (self._keeper.active, self._keeper.building) if each is not None]
        dropped = [self._drop_unneeded(each) for each in opened]
        if any(dropped):
            return True
        building = self._keeper.building
        # A new index of vectors that are there is soon done; what is not embedded yet comes after.
        if building is not None and building.row.purpose != "reindexing":
            if self._index(building):
                return True
            return self._swap()
        try:
            embedded = bool(opened) and self._embed()
        except EmbeddingError:
            while self._index_into(opened):
                pass  # what could be embedded shall be found
            raise
        if embedded:
            if self._not_indexed >= INDEXED_AFTER:
                self._index_into(opened)
            return True
        if self._index_into(opened):
            return True
        if building is not None:
            return self._swap()
        return self._keeper.tidy()

    def add_codes(self) -> bool:
        """Give codes to a few segments whose vectors were made without; whether there may be more.

        Those of the first seconds of a process are, and all of an older version's.

        Raises:
            EmbeddingError: the embedder failed.
            StorageError: the ledger refused.
        """
        loaded = self._dense.loaded if self._dense else None
        if loaded is None or loaded.coding is None:
            return False
        waiting = self._states.codes.pending(
            loaded.coding, loaded.number, beyond=self._coded_up_to, limit=EMBEDDING_BATCH
        )
        batch = _within_tokens(waiting)
        self._lacks_codes = bool(batch)
        if not batch:
            self._coding_pace.clear()
            return False
        for piece, embedded in self._embedded(batch):
            self._store_codes(piece, embedded)
        self._coded_up_to = batch[-1].number
        self._coding_pace.append((time.monotonic(), len(batch)))
        return True

    def reindex(self, *, force: bool) -> str | None:
        """Have a new index built by the configured embedder, beside the one there is.

        Args:
            force: even when the one there is was built by the same embedder.

        Returns:
            None when it has begun; else why it has not, in words.

        Raises:
            ConflictError: no embedder is configured.
            EmbeddingError: the embedder cannot be used.
            StorageError: the ledger cannot be written.
        """
        if self._dense is None:
            raise ConflictError(
                "no embedder is configured",
                advice="Set embedder.kind, and start the daemon again.",
            )
        self._dense.load()
        embedder = self._embedder
        assert embedder is not None
        with self._asking:
            active, building = self._rows.live()
            if building is not None and building.embedder == embedder:
                return "A new index is being built already."
            if active is not None and active.embedder == embedder and not force:
                return "The index was built by this embedder: there is nothing to do."
            self._rows.create(embedder, self._keeper.place.name, "building", "reindexing")
            self._keeper.wake()
        return None

    def request_scrub(self) -> None:
        """Have the index built anew from the vectors that remain, and its old files deleted.

        Raises:
            StorageError: the ledger cannot be written.
        """
        self._scrubs.request()
        self._keeper.wake()

    def count(self) -> int:
        """How many segments the index holds that is searched, or would be, of all owners."""
        active, building = self._rows.live()
        row = active or building
        return self._contents.count_indexed(row.id) if row else 0

    def count_pending(self, owner: str) -> int:
        """How many of this owner's segments the index does not hold yet; 0 without an index.

        Counts no further than `PENDING_COUNTED`. The first call for an owner looks at all segments,
        later ones at those that have come since.
        """
        active = self._keeper.active
        if active is None:
            return 0
        done = max(active.done_up_to, active.complete_up_to.get(owner, 0))
        refused = [n for n, whose in dict(self._refused).items() if whose == owner and n <= done]
        lacking = self._contents.lacking(
            active.row.id, beyond=done, owner=owner, most=PENDING_COUNTED
        )
        active.complete_up_to[owner] = lacking.complete_up_to
        return min(PENDING_COUNTED, lacking.number + len(refused))

    def progress(self) -> Progress | None:
        """What is being done, and how far it has come; None when nothing is."""
        active, building = self._rows.live()
        row = building or active
        if row is None or row.embedder != self._embedder:
            return None
        done, total = self._contents.count_indexed(row.id), self._states.count_segments()
        doing: Doing = building.purpose if building else "embedding"
        pace = self._pace
        if building is None and done + len(self._refused) >= total:
            if not self._lacks_codes:
                return None
            doing, pace = "indexing tokens", self._coding_pace
            done = self._states.count_segments(up_to=self._coded_up_to)
        rate = _rate(pace)
        return Progress(
            doing=doing,
            done=done,
            total=total,
            rate=rate,
            eta_seconds=(total - done) / rate if rate else None,
        )

    @property
    def _embedder(self) -> int | None:
        loaded = self._dense.loaded if self._dense else None
        return loaded.number if loaded else None

    @property
    def _coding(self) -> int | None:
        loaded = self._dense.loaded if self._dense else None
        return loaded.coding if loaded else None

    def _embed(self) -> bool:
        """Embed the next few segments and write their vectors to the ledger; whether there were."""
        embedder = self._embedder
        assert embedder is not None
        waiting = self._states.pending(embedder, beyond=self._embedded_up_to, limit=EMBEDDING_BATCH)
        batch = _within_tokens(waiting)
        if not batch:
            return False
        for piece, embedded in self._embedded(batch):
            self._states.store(embedder, piece, embedded.vectors)
            self._store_codes(piece, embedded)
            self.embedded += len(piece)
            self._not_indexed += len(piece)
        self._embedded_up_to = batch[-1].number
        return True

    def _store_codes(self, pieces: Sequence[PendingSegment], embedded: Embedded) -> None:
        if embedded.tokens is None or self._coding is None:
            return
        codes = token_codes.encode_all(embedded.tokens)
        self._states.codes.store(self._coding, [each.number for each in pieces], codes)

    def _embedded(
        self, batch: list[PendingSegment]
    ) -> Iterable[tuple[list[PendingSegment], Embedded]]:
        """Embed a batch; when it is refused, each by itself, so that one text blocks no others."""
        assert self._dense is not None
        try:
            return [(batch, self._dense.embed_passages([piece.text for piece in batch]))]
        except EmbeddingError:
            if not self._takes_anything():
                raise  # not one text is at fault, but the embedder
            done = [embedded for piece in batch if (embedded := self._alone(piece))]
            taken = {piece.number for pieces, _ in done for piece in pieces}
            self._refused |= {p.number: p.owner for p in batch if p.number not in taken}
            return done

    def _takes_anything(self) -> bool:
        """Whether the embedder works at all."""
        assert self._dense is not None
        try:
            self._dense.embed_passages(["ready?"])
        except EmbeddingError:
            return False
        return True

    def _alone(self, piece: PendingSegment) -> tuple[list[PendingSegment], Embedded] | None:
        assert self._dense is not None
        try:
            return [piece], self._dense.embed_passages([piece.text])
        except EmbeddingError as error:
            # It is found by its words meanwhile, and is tried again at the next start.
            log.warning("segment %d is not embedded: %s", piece.number, error.problem().in_words())
            return None

    def _index_into(self, opened: list[OpenGeneration]) -> bool:
        self._not_indexed = 0
        indexed = [self._index(each) for each in opened]  # each of them, not up to the first
        return any(indexed)

    def _index(self, generation: OpenGeneration) -> bool:
        """Put the next vectors into one generation; whether there were any."""
        row = generation.row
        entries = self._states.to_index(
            row.id, row.embedder, beyond=generation.done_up_to, limit=INDEX_BATCH
        )
        if not entries:
            return False
        try:
            self._keeper.check_there(generation)
            generation.index.add(entries)
        except IndexDamagedError as error:
            self._report(generation, error)
            return True
        self._damaged = 0
        self._contents.mark_indexed(row.id, [(entry.number, entry.owner) for entry in entries])
        generation.done_up_to = entries[-1].number
        if generation is (self._keeper.building or self._keeper.active):
            self._pace.append((time.monotonic(), len(entries)))
        return True

    def _drop_unneeded(self, generation: OpenGeneration) -> bool:
        """Remove vectors of segments that are gone; whether there were any."""
        unneeded = self._contents.unneeded(generation.row.id, limit=_DROPPED_AT_ONCE)
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for each in unneeded:
            numbers[each.owner].append(each.number)
        try:
            if numbers:
                self._keeper.check_there(generation)
            for owner, gone in numbers.items():
                generation.index.delete(gone, owner=owner)
        except IndexDamagedError as error:
            self._report(generation, error)
            return True
        if unneeded:
            self._contents.mark_dropped(generation.row.id, unneeded)
        return bool(unneeded)

    def _report(self, generation: OpenGeneration, error: IndexDamagedError) -> None:
        """Have a damaged generation replaced; when the next one is damaged too, give up."""
        self._damaged += 1
        self._keeper.report(generation, error)
        if self._damaged >= _DAMAGED_IN_A_ROW:
            self._damaged = 0
            raise error

    def _swap(self) -> bool:
        self._keeper.swap()
        self._pace.clear()
        self._keeper.wake()
        return True


def _rate(pace: deque[tuple[float, int]]) -> float:
    """Segments a second, lately; forgets what was before."""
    now = time.monotonic()
    recent = [(at, count) for at, count in list(pace) if at > now - _RATE_SECONDS]
    while len(pace) > len(recent):
        pace.popleft()
    if len(recent) < 2:
        return 0.0
    return sum(count for _, count in recent[1:]) / max(now - recent[0][0], 1e-3)


def _within_tokens(waiting: list[PendingSegment]) -> list[PendingSegment]:
    """As many as make one short go, in order: a search's own embedding shall not wait long."""
    tokens = 0
    for count, pending in enumerate(waiting):
        tokens += estimate_tokens(pending.text)
        if count and tokens > EMBEDDING_BATCH_TOKENS:
            return waiting[:count]
    return waiting
