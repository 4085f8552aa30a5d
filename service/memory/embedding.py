"""Carries segments from the ledger to the vector index, so that no crash loses or doubles one."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from service.domain.anchors import AnchorRef
from service.domain.errors import EmbeddingError
from service.memory.dense import DenseSide
from service.memory.embedding_states import EmbeddingStates, PendingSegment
from service.memory.tokens import estimate_tokens
from service.memory.tuned import EMBEDDING_BATCH, EMBEDDING_BATCH_TOKENS

log = logging.getLogger(__name__)

_REMOVED_AT_ONCE = 500


class EmbeddingQueue:
    """What waits for the vector index. The methods block; one thread at a time calls `embed_batch`.

    Numbers only ever grow, so everything up to the last one done needs no second look.
    """

    def __init__(self, states: EmbeddingStates, dense: DenseSide) -> None:
        self._states = states
        self._dense = dense
        self._embedder: int | None = None
        self._done_up_to = 0
        self._refused = 0
        self.embedded = 0
        """How many segments this queue has embedded since it was made."""

    def load(self) -> None:
        """Load the dense side, once, and see whether the index holds what the ledger believes.

        Raises:
            EmbeddingError: the embedder cannot be used.
            StorageError: the index or the ledger cannot be opened.
        """
        self._dense.load()
        if self._embedder is not None:
            return
        identity = self._dense.identity
        assert identity is not None
        embedder = self._states.embedder(identity)
        if self._dense.count() < self._states.count_embedded(embedder):
            # Somebody removed the index, or the power went: what is missing cannot be told.
            self._states.forget_embedded(embedder)
        self._embedder = embedder

    def embed_batch(self) -> bool:
        """Remove vectors that are not needed any more, then embed the next few segments.

        The order matters: a segment that comes back where another was removed is embedded after the
        removal. A crash between the two writes leaves a vector that is written once more.

        Returns:
            Whether there was anything to do.

        Raises:
            EmbeddingError: the embedder failed; nothing was marked.
            StorageError: the index or the ledger refused.
        """
        assert self._embedder is not None, "load() comes first"
        removed = self._remove_unneeded()
        waiting = self._states.pending(
            self._embedder, beyond=self._done_up_to, limit=EMBEDDING_BATCH
        )
        batch = _within_tokens(waiting)
        if batch:
            done = self._add(batch)
            self._states.mark_embedded(self._embedder, [pending.number for pending in done])
            self._done_up_to = batch[-1].number
            self.embedded += len(done)
        return removed or bool(batch)

    def _add(self, batch: list[PendingSegment]) -> list[PendingSegment]:
        """Embed a batch; when it is refused, each by itself, so that one text blocks no others."""
        try:
            self._dense.add([pending.segment for pending in batch])
        except EmbeddingError:
            done = [pending for pending in batch if len(batch) > 1 and self._takes(pending)]
            if not done:
                raise  # not one text is at fault, but the embedder
            self._refused += len(batch) - len(done)
            return done
        return batch

    def _takes(self, pending: PendingSegment) -> bool:
        try:
            self._dense.add([pending.segment])
        except EmbeddingError as error:
            # It is found by its words meanwhile, and is tried again at the next start.
            anchor = pending.segment.anchor
            log.warning("%s is not embedded: %s", anchor, error.problem().in_words())
            return False
        return True

    def count(self) -> int:
        """How many segments have their vector, of all owners; 0 before `load`."""
        return 0 if self._embedder is None else self._states.count_embedded(self._embedder)

    def count_pending(self, owner: str) -> int:
        """How many of this owner's segments wait; 0 before `load`."""
        if self._embedder is None:
            return 0
        waiting = self._states.count_pending(self._embedder, beyond=self._done_up_to, owner=owner)
        return waiting + self._refused

    def without_vector(self, refs: Iterable[AnchorRef], owner: str) -> frozenset[AnchorRef]:
        """Those of this owner's segments that wait; none before `load`."""
        if self._embedder is None:
            return frozenset()
        return self._states.without_vector(self._embedder, refs, owner=owner)

    def _remove_unneeded(self) -> bool:
        unneeded = self._states.unneeded(limit=_REMOVED_AT_ONCE)
        refs: defaultdict[str, list[AnchorRef]] = defaultdict(list)
        for vector in unneeded:
            refs[vector.owner].append(vector.ref)
        for owner, gone in refs.items():
            self._dense.remove(gone, owner=owner)
        if unneeded:
            self._states.mark_removed(unneeded)
        return bool(unneeded)


def _within_tokens(waiting: list[PendingSegment]) -> list[PendingSegment]:
    """As many as make one short go, in order: a search's own embedding shall not wait long."""
    tokens = 0
    for count, pending in enumerate(waiting):
        tokens += estimate_tokens(pending.segment.content)
        if count and tokens > EMBEDDING_BATCH_TOKENS:
            return waiting[:count]
    return waiting
