"""Rows of messages that were moved to another run loop, and of what followed from them there: their
words went along, and the row refers to where they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from service.domain.history.events import Event, EventBody
from service.domain.history.redaction import without_words
from service.domain.history.references import Reference, Told, text_at, texts_in
from service.memory.journal.kept_words import (
    IS_COPY,
    SAME_AS,
    WENT_TO,
    json_of,
    kept,
    kept_as,
    with_link,
)


def hand_over(db: sqlite3.Connection, original: Event, now: Event) -> None:
    """Within a transaction: let an event refer to the one that holds its words from now on.

    One that holds none of its own, as it was inherited by a fork, stays as it is.
    """
    db.execute(
        f"UPDATE events SET body = ? WHERE seq = ? AND NOT {IS_COPY}",
        (handed_over(original.body, now), original.seq, SAME_AS, WENT_TO),
    )


def handed_over(body: EventBody, now: Event) -> str:
    """A body as it is kept once its words are those of another event."""
    seq = now.seq or 0
    if body == now.body:
        return kept_as(body, seq)
    return with_link(kept(body, tuple(_told(body, now))), WENT_TO, seq)


def _told(body: EventBody, now: Event) -> Iterator[Told]:
    """Where a body's words stand in that other event, which tells some things otherwise."""
    bare, there = json_of(without_words(body)), json_of(now.body)
    for field, text in texts_in(json_of(body)):
        if not text or text_at(bare, field) == text:
            continue  # no words
        its = [(field, text_at(there, field) or ""), *texts_in(there)]
        place = next(((name, whole.find(text)) for name, whole in its if text in whole), None)
        if place is not None:
            name, start = place
            words = (Reference(event=now.seq or 0, field=name, start=start, end=start + len(text)),)
            yield Told(field=field, words=words)
