"""The tables of notes, in the ledger's file, and how notes fall with the words that they rest on.

A note is derived, but not from the journal alone: a language model wrote it. So its citations name
addresses and the hash of what stood there, and not rows of the ledger: a ledger that is made anew
from the journal leaves the notes as they are, as long as the words are the same.

That a sentence never outlives what it cites is seen to by triggers on the segments themselves,
whoever deletes or changes them. The words of notes are indexed in a plain table: unlike an index of
FTS5, SQLite overwrites what is deleted from it. The functions that write work within a transaction
of the caller's.
"""

from __future__ import annotations

import sqlite3

from service.domain.anchors import AnchorRef
from service.domain.ids import new_id
from service.memory.ledger.notes import NewSentence, NewSentences, UnreadSegment
from service.memory.ledger.terms import content_terms, subject_key, terms
from service.memory.memory_tuning import NOTE_MOST_SENTENCES
from service.storage.sqlite_file import Row

_AT_SEGMENT = (
    "owner = {row}.owner AND run_loop_id = {row}.run_loop_id"
    " AND iteration = {row}.iteration AND segment = {row}.segment"
)
_OLD = _AT_SEGMENT.format(row="OLD")
_NEW = _AT_SEGMENT.format(row="NEW")

NOTES_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS notes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    subject_key TEXT NOT NULL,  -- its terms: what tells one subject from another
    written_at TEXT NOT NULL,   -- ISO 8601: when the newest sentence was
    UNIQUE (owner, subject_key)
);
CREATE TABLE IF NOT EXISTS note_sentences (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    note TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS sentences_of_note ON note_sentences (note, id);
CREATE TABLE IF NOT EXISTS note_citations (
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    sentence INTEGER NOT NULL,
    type TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    shown INTEGER NOT NULL,  -- 0: not cited, but words of the sentence stand there only
    PRIMARY KEY (owner, run_loop_id, iteration, segment, sentence)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS citations_of_sentence ON note_citations (sentence);
CREATE TABLE IF NOT EXISTS note_terms (
    owner TEXT NOT NULL,
    term TEXT NOT NULL,
    sentence INTEGER NOT NULL,
    PRIMARY KEY (owner, term, sentence)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS terms_of_sentence ON note_terms (sentence);
CREATE TABLE IF NOT EXISTS notes_read (  -- the segments that notes were written from, or need none
    owner TEXT NOT NULL,
    run_loop_id TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    text_hash TEXT NOT NULL,
    PRIMARY KEY (owner, run_loop_id, iteration, segment)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS notes_lose_a_sentence AFTER DELETE ON note_sentences BEGIN
    DELETE FROM note_citations WHERE sentence = OLD.id;
    DELETE FROM note_terms WHERE sentence = OLD.id;
    DELETE FROM notes WHERE id = OLD.note
        AND NOT EXISTS (SELECT 1 FROM note_sentences WHERE note = OLD.note);
END;
CREATE TRIGGER IF NOT EXISTS notes_fall_with_a_segment AFTER DELETE ON segments BEGIN
    DELETE FROM note_sentences
        WHERE id IN (SELECT sentence FROM note_citations WHERE {_OLD});
    DELETE FROM notes_read WHERE {_OLD};
END;
CREATE TRIGGER IF NOT EXISTS notes_fall_with_a_change AFTER UPDATE OF text_hash ON segments BEGIN
    DELETE FROM note_sentences WHERE id IN (
        SELECT sentence FROM note_citations WHERE {_NEW} AND text_hash <> NEW.text_hash);
END;
CREATE TRIGGER IF NOT EXISTS notes_fall_with_another_text AFTER INSERT ON segments BEGIN
    DELETE FROM note_sentences WHERE id IN (
        SELECT sentence FROM note_citations WHERE {_NEW} AND text_hash <> NEW.text_hash);
END;
"""
"""Needs the table of segments, so it comes after that."""


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
