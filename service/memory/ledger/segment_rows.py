"""Segments as the ledger's rows, and moments as both indexes store them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from service.domain.anchors import Anchor, Segment

SEGMENT_COLUMNS = "run_loop_id, iteration, segment, type, timestamp, text, owner, call_id"
"""What `segment_from_row` reads, in its order."""


def segment_from_row(row: Sequence[Any]) -> Segment:
    """The segment of a row of `SEGMENT_COLUMNS`."""
    run_loop_id, iteration, index, segment_type, timestamp, text, owner, call_id = row
    return Segment(
        anchor=Anchor(
            run_loop_id=run_loop_id,
            iteration_index=iteration,
            segment_index=index,
            segment_type=segment_type,
            timestamp=datetime.fromisoformat(timestamp),
        ),
        content=text,
        owner=owner,
        call_id=call_id,
    )


def epoch(moment: datetime) -> float:
    """Seconds since 1970; a moment without a time zone is taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
