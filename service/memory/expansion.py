"""Expanding: what stood around a segment in its run loop."""

from __future__ import annotations

from service.domain.anchors import AnchorRef, ExpandedContext
from service.domain.errors import NotFoundError
from service.memory.ledger import Ledger
from service.memory.tokens import estimate_tokens
from service.memory.windows import nearest_within


def expand(
    ledger: Ledger,
    ref: AnchorRef,
    *,
    owner: str,
    before: int,
    after: int,
    max_tokens: int | None,
) -> ExpandedContext:
    """See `MemoryReader.expand`. Blocks.

    Raises:
        NotFoundError: this owner has no such segment.
        StorageError: the ledger cannot be read.
    """
    summary = ledger.summary(ref.run_loop_id, owner=owner)
    focus = ledger.segments([ref], owner=owner).get(ref)
    if summary is None or focus is None:
        raise NotFoundError(
            f"nothing is remembered at {ref}",
            advice="Copy an anchor from the results of a memory search.",
        )
    earlier = ledger.before(ref, owner=owner, limit=before)
    later = ledger.after(ref, owner=owner, limit=after)
    if max_tokens is not None:
        budget = max_tokens - estimate_tokens(focus.content)
        earlier, later = nearest_within(earlier, later, budget)
    return ExpandedContext(
        run_loop=summary, focus=focus, before=tuple(reversed(earlier)), after=tuple(later)
    )
