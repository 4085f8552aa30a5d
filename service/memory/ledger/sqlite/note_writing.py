"""Writing notes: what a new sentence is, and how it comes into the tables, if what it cites stands.

The functions work within a transaction of the caller's.
"""

from __future__ import annotations

import sqlite3

from service.domain.anchors import AnchorRef
from service.domain.ids import new_id
from service.memory.ledger.notes import NewSentence, NewSentences, UnreadSegment
from service.memory.ledger.terms import content_terms, subject_key, terms
from service.memory.memory_tuning import NOTE_MOST_SENTENCES
from service.storage.sqlite_file import Row


def write_note(db: sqlite3.Connection, owner: str, note: NewSentences, moment: str) -> int:
    """Add sentences on one subject, but for those that cite what is gone or are there; how many."""
    key = subject_key(note.subject)
    row = db.execute(
        "SELECT id, subject FROM notes WHERE owner = ? AND subject_key = ?", (owner, key)
    ).fetchone()
    note_id, subject = row or (new_id(), note.subject)
    numbers: dict[str, int] = {
        text: number
        for number, text in db.execute(
            "SELECT id, text FROM note_sentences WHERE note = ?", (note_id,)
        )
    }
    have = {" ".join(terms(text)) for text in numbers}
    added = 0
    for sentence in note.sentences:
        form = " ".join(terms(sentence.text))
        if form in have or not all(
            _is_there(db, each) for each in (*sentence.cited, *sentence.leaning)
        ):
            continue
        if not row and not added:
            db.execute(
                "INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?)",
                (note_id, owner, note.kind, note.subject, key, moment),
            )
        _insert_sentence(db, owner, note_id, subject, sentence)
        for text in sentence.replaces:
            if (number := numbers.pop(text, None)) is not None:
                db.execute("DELETE FROM note_sentences WHERE id = ?", (number,))
        have.add(form)
        added += 1
    if added:
        db.execute("UPDATE notes SET written_at = ? WHERE id = ?", (moment, note_id))
        db.execute(  # the oldest give way
            "DELETE FROM note_sentences WHERE id IN (SELECT id FROM note_sentences WHERE note = ?"
            " ORDER BY id DESC LIMIT -1 OFFSET ?)",
            (note_id, NOTE_MOST_SENTENCES),
        )
    return added


def _is_there(db: sqlite3.Connection, cited: UnreadSegment) -> bool:
    """Whether a segment is still as it was read."""
    rows = db.execute(
        "SELECT 1 FROM segments WHERE id = ? AND text_hash = ?", (cited.number, cited.text_hash)
    )
    return rows.fetchone() is not None


def _insert_sentence(
    db: sqlite3.Connection, owner: str, note_id: str, subject: str, sentence: NewSentence
) -> None:
    number = db.execute(
        "INSERT INTO note_sentences(note, text) VALUES (?, ?)", (note_id, sentence.text)
    ).lastrowid
    # Each sentence is found by the name of its subject too.
    words = content_terms(sentence.text) | content_terms(subject)
    db.executemany(
        "INSERT INTO note_terms VALUES (?, ?, ?)", [(owner, term, number) for term in words]
    )
    db.executemany(
        "INSERT OR IGNORE INTO note_citations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(_citation(owner, number, each, shown=True) for each in sentence.cited),
            *(_citation(owner, number, each, shown=False) for each in sentence.leaning),
        ],
    )


def _citation(owner: str, sentence: int | None, cited: UnreadSegment, *, shown: bool) -> Row:
    anchor = cited.segment.anchor
    ref: AnchorRef = anchor.ref
    return (
        owner,
        *ref,
        sentence,
        anchor.segment_type,
        anchor.timestamp.isoformat(),
        cited.text_hash,
        shown,
    )
