"""NoteStore are found by words and subjects, cite what they rest on, and fall with it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from service.domain.anchors import MemoryNote
from service.domain.errors import NotFoundError
from service.memory.ledger.notes import (
    NewSentence,
    NewSentences,
    NoteKind,
    NoteStore,
    UnreadSegment,
)
from service.memory.long_term import LongTermMemory
from service.memory.memory_tuning import NOTE_MOST_SENTENCES, NOTES_FOUND, NOTES_FOUND_SENTENCES
from service.memory.protocol import SearchFilters
from tests.support.memory.remembering import remembering, run_loop

pytestmark = pytest.mark.anyio

ADA = run_loop(
    "ada",
    ("Ada moved to Basel.", "Noted."),
    ("She keeps two cats.", "Lovely."),
)
MING = run_loop("ming", ("小明住在杭州。", "好的。"), ("他对花生过敏。", "记住了。"))
HERS = run_loop("hers", ("Ada is my boss.", "I see."), owner="eve")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[LongTermMemory]:
    async with remembering(tmp_path, None, ADA, MING, HERS) as opened:
        opened.gives_notes = True
        yield opened


def unread(notes: NoteStore, owner: str = "me") -> dict[str, UnreadSegment]:
    """What can be cited, by its short anchor."""
    return {each.segment.anchor.text: each for each in notes.unread(owner, limit=100)}


def write(
    notes: NoteStore,
    subject: str,
    *sentences: tuple[str, tuple[str, ...]],
    kind: NoteKind = "person",
    owner: str = "me",
    read: bool = False,
    replaces: tuple[str, ...] = (),
) -> int:
    there = unread(notes, owner)
    cited = [
        NewSentence(text, tuple(there[anchor] for anchor in anchors), replaces=replaces)
        for text, anchors in sentences
    ]
    new = NewSentences(kind, subject, tuple(cited))
    return notes.write(owner, [new], read=list(there.values()) if read else [])


def texts(notes: list[MemoryNote]) -> list[str]:
    return [sentence.text for note in notes for sentence in note.sentences]


async def test_a_note_is_given_beside_the_hits_with_its_anchors(memory: LongTermMemory) -> None:
    write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)))
    response = await memory.search("Where does Ada live?", owner="me")
    assert response.hits
    [note] = response.notes
    assert (note.subject, note.kind, note.owner) == ("Ada", "person", "me")
    assert note.sentences[0].text == "Ada lives in Basel."
    [hit] = [hit for hit in response.hits if hit.anchor.text == "ada:0.0"]
    assert note.sentences[0].anchors == (hit.anchor,)


async def test_a_chinese_note_is_found_by_its_subject_and_by_its_words(
    memory: LongTermMemory,
) -> None:
    write(
        memory.notes, "小明", ("小明住在杭州。", ("ming:0.0",)), ("他对花生过敏。", ("ming:1.0",))
    )
    by_subject = memory.notes.search("小明住在哪里？", owner="me")
    assert texts(by_subject) == ["小明住在杭州。", "他对花生过敏。"]
    assert texts(memory.notes.search("谁对花生过敏", owner="me"))[-1] == "他对花生过敏。"
    assert memory.notes.search("上海的天气", owner="me") == []


async def test_words_that_say_nothing_find_no_note(memory: LongTermMemory) -> None:
    write(memory.notes, "the user", ("The user is with Ada in Basel.", ("ada:0.0",)))
    for query in ("what is it about?", "Tell me the time in the evening", "??", "这是什么"):
        assert memory.notes.search(query, owner="me") == []
    assert memory.notes.search("Who lives in Basel?", owner="me")


async def test_a_search_that_is_narrowed_or_of_one_who_writes_no_notes_gives_none(
    memory: LongTermMemory,
) -> None:
    write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)))
    narrowed = SearchFilters(run_loop_id="ada")
    assert (await memory.search("Ada Basel", owner="me", filters=narrowed)).notes == ()
    elsewhere = SearchFilters(without_run_loop_id="other")
    assert (await memory.search("Ada Basel", owner="me", filters=elsewhere)).notes
    memory.gives_notes = False
    assert (await memory.search("Ada Basel", owner="me")).notes == ()


async def test_owners_never_see_each_others_notes(memory: LongTermMemory) -> None:
    write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)))
    write(memory.notes, "Ada", ("Ada is the boss.", ("hers:0.0",)), owner="eve")
    assert texts(memory.notes.of("me")) == ["Ada lives in Basel."]
    assert texts(memory.notes.search("Ada", owner="eve")) == ["Ada is the boss."]
    [mine] = memory.notes.of("me")
    with pytest.raises(NotFoundError):
        memory.notes.remove(mine.id, owner="eve")
    assert memory.notes.of("me") == [mine]


async def test_sentences_on_the_same_subject_are_one_note_and_nothing_is_said_twice(
    memory: LongTermMemory,
) -> None:
    assert write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",))) == 1
    again = ("Ada lives in Basel!", ("ada:0.0",))
    new = ("Ada has two cats.", ("ada:1.0",))
    assert write(memory.notes, "ADA", again, new, kind="topic") == 1
    [note] = memory.notes.of("me")
    assert texts([note]) == ["Ada lives in Basel.", "Ada has two cats."]
    assert (note.subject, note.kind) == ("Ada", "person")


async def test_a_sentence_can_take_the_place_of_one_of_its_own_note_only(
    memory: LongTermMemory,
) -> None:
    write(memory.notes, "Ada", ("Ada lives in Bern.", ("ada:0.0",)))
    write(memory.notes, "cats", ("There are two cats.", ("ada:1.0",)), kind="topic")
    newer = ("Ada lives in Basel.", ("ada:0.0",))
    write(memory.notes, "Ada", newer, replaces=("Ada lives in Bern.", "There are two cats."))
    assert sorted(texts(memory.notes.of("me"))) == ["Ada lives in Basel.", "There are two cats."]


async def test_what_was_read_is_not_read_again_also_not_after_a_restart(tmp_path: Path) -> None:
    async with remembering(tmp_path, None, ADA, MING) as memory:
        first = memory.notes.unread("me", limit=2)
        memory.notes.write("me", [], read=first)
        rest = memory.notes.unread("me", limit=100)
        assert not {each.number for each in first} & {each.number for each in rest}
    async with remembering(tmp_path, None, ADA, MING) as memory:
        assert memory.notes.unread("me", limit=100) == rest
        assert memory.notes.unread_count("me", most=100) == len(rest)
        assert memory.notes.unread_count("me", most=3) == 3
        memory.notes.write("me", [], read=rest)
        assert memory.notes.unread("me", limit=100) == []


async def test_what_was_read_is_not_read_again_when_the_ledger_was_made_anew(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, None, MING, ADA) as memory:
        write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)), read=True)
        before = memory.notes.of("me")
    with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db:
        db.executescript(
            "DROP TABLE segments; DELETE FROM run_loops; DELETE FROM iterations; DROP TABLE words;"
        )
    other = run_loop("ming", ("小明住在苏州。", "好的。"))
    async with remembering(tmp_path, None, ADA, other) as memory:
        assert memory.notes.of("me") == before
        assert set(unread(memory.notes)) == {"ming:0.0"}


async def test_a_sentence_falls_when_what_it_cites_is_changed_or_gone_after_archiving_again(
    memory: LongTermMemory,
) -> None:
    write(
        memory.notes,
        "Ada",
        ("Ada lives in Basel.", ("ada:0.0",)),
        ("Ada has two cats.", ("ada:0.0", "ada:1.0")),
        ("It was noted.", ("ada:0.1",)),
    )
    grown = run_loop(
        "ada", ("Ada moved to Basel.", "Noted."), ("She keeps three cats.", "Lovely."), ("So?", "!")
    )
    await memory.archive(grown)
    assert texts(memory.notes.of("me")) == ["Ada lives in Basel.", "It was noted."]
    await memory.archive(run_loop("ada", ("Ada moved to Bonn.", "Noted.")))
    assert texts(memory.notes.of("me")) == ["It was noted."]
    await memory.archive(run_loop("ada", ("Ada moved to Bonn.", "Ah.")))
    assert memory.notes.of("me") == []


async def test_archiving_the_same_again_leaves_the_notes(memory: LongTermMemory) -> None:
    write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)))
    before = memory.notes.of("me")
    assert await memory.archive(ADA) == 0
    assert memory.notes.of("me") == before


@pytest.mark.parametrize(
    ("forgotten", "left"),
    [
        ("owner = 'me' AND run_loop_id = 'ada'", ["小明住在杭州。"]),
        ("run_loop_id = 'ada' AND iteration = 1", ["Ada lives in Basel.", "小明住在杭州。"]),
        ("run_loop_id = 'ada' AND iteration = 0 AND segment = 0", ["小明住在杭州。"]),
        ("owner = 'me'", []),
        ("owner = 'eve'", ["Ada has two cats.", "Ada lives in Basel.", "小明住在杭州。"]),
    ],
)
async def test_sentences_fall_with_what_is_forgotten_whoever_deletes_it(
    memory: LongTermMemory, tmp_path: Path, forgotten: str, left: list[str]
) -> None:
    write(
        memory.notes,
        "Ada",
        ("Ada lives in Basel.", ("ada:0.0",)),
        ("Ada has two cats.", ("ada:0.0", "ada:1.0")),
    )
    write(memory.notes, "小明", ("小明住在杭州。", ("ming:0.0",)), read=True)
    with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db:
        db.execute(f"DELETE FROM segments WHERE {forgotten}")
        db.commit()
        lacking = db.execute(
            "SELECT count(*) FROM notes_read AS r WHERE NOT EXISTS (SELECT 1 FROM segments AS s"
            " WHERE s.run_loop_id = r.run_loop_id AND s.iteration = r.iteration"
            " AND s.segment = r.segment)"
        ).fetchone()
    assert sorted(texts(memory.notes.of("me"))) == left
    assert lacking == (0,)


async def test_nothing_is_left_in_the_file_of_a_note_that_fell(
    memory: LongTermMemory, tmp_path: Path
) -> None:
    write(memory.notes, "Ada", ("Ada owns a xylophone.", ("ada:0.0",)))
    file = tmp_path / "memory.sqlite3"
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM note_terms WHERE term = 'xylophon'").fetchone()[0]
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM segments WHERE run_loop_id = 'ada' AND iteration = 0")
        db.commit()
        for table in ("notes", "note_sentences", "note_terms", "note_citations"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"xylophon" not in file.read_bytes()


async def test_a_sentence_that_cites_what_was_forgotten_meanwhile_is_not_written(
    memory: LongTermMemory, tmp_path: Path
) -> None:
    there = unread(memory.notes)
    with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db:
        db.execute("DELETE FROM segments WHERE run_loop_id = 'ada' AND iteration = 0")
        db.commit()
    sentences = (
        NewSentence("Ada lives in Basel.", (there["ada:0.0"], there["ada:1.0"])),
        NewSentence("Ada has two cats.", (there["ada:1.0"],)),
    )
    read = list(there.values())
    assert memory.notes.write("me", [NewSentences("person", "Ada", sentences)], read=read) == 1
    assert texts(memory.notes.of("me")) == ["Ada has two cats."]
    assert unread(memory.notes) == {}


async def test_a_note_that_is_removed_leaves_the_words(memory: LongTermMemory) -> None:
    write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)), read=True)
    [note] = memory.notes.of("me")
    assert memory.notes.remove(note.id, owner="me") == note
    assert memory.notes.of("me") == []
    assert unread(memory.notes) == {}
    assert (await memory.search("Basel", owner="me")).hits
    with pytest.raises(NotFoundError):
        memory.notes.remove(note.id, owner="me")


async def test_a_search_gives_few_notes_with_few_sentences_and_a_note_keeps_its_newest(
    memory: LongTermMemory,
) -> None:
    many = [(f"Basel fact number {n}.", ("ada:0.0",)) for n in range(NOTE_MOST_SENTENCES + 5)]
    for name in ("Ada", "Bea", "Cy", "Dan", "Eli"):
        write(memory.notes, name, *many)
    notes = memory.notes.search("Basel facts", owner="me")
    assert len(notes) == NOTES_FOUND
    assert {len(note.sentences) for note in notes} == {NOTES_FOUND_SENTENCES}
    [first, *_] = memory.notes.of("me")
    assert len(first.sentences) == NOTE_MOST_SENTENCES
    assert first.sentences[0].text == "Basel fact number 5."


async def test_without_notes_a_search_asks_for_none(memory: LongTermMemory) -> None:
    assert memory.notes.may_be_there()
    await memory.search("Ada", owner="me")
    assert not memory.notes.may_be_there()
    write(memory.notes, "Ada", ("Ada lives in Basel.", ("ada:0.0",)))
    assert (await memory.search("Ada", owner="me")).notes
