"""Every store that holds words, as docs/forgetting.md lists them: forgetting reaches each."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import MessageReceived
from service.domain.ids import new_id
from service.llm.embedded.prompt_states import FOLDER as PROMPT_STATES
from service.memory.file_changes import FOLDER as FILE_CHANGES
from service.memory.file_changes import FileChange
from service.memory.journal.inbox import InboxEntry
from service.memory.journal.sqlite.journal_form import VERSION
from service.memory.journal.standing_approvals import StandingApproval
from service.memory.ledger.notes import NewSentence, NewSentences
from service.memory.memory import Memory
from service.memory.sent_files import FOLDER as SENT_FILES
from service.schedules.recurrence import Timing
from service.schedules.schedule import Schedule
from service.storage.sqlite_copy import copy_file
from service.tools.skills.skill_settings import VERSIONS
from tests.support.agent.agents import FunctionLLM, echo, running_agent, sent, until
from tests.support.memory.indexing import NoisyEmbedder, beginning_as_kept
from tests.support.memory.secrets import Loop, archived, forget, record_exchange, working_memory

WORD = "zwibbelquast"
QUESTION = f"where is the {WORD}?"
HOLD_WORDS = {
    "journal.sqlite3": (
        *("events", "run_loops", "inbox", "schedules"),
        *("standing_approvals", "narrowed_approvals"),
    ),
    "memory.sqlite3": (
        "run_loops",
        "iterations",
        "segments",
        "words",
        "word_counts",
        "facts",
        "notes",
        "note_sentences",
        "note_terms",
        "pending",
    ),
}
"""The tables that hold words; all others hold numbers, ids, hashes and times."""
DOCS = Path(__file__).parents[2] / "docs" / "forgetting.md"


COPY = f"journal.before-v{VERSION}.sqlite3"


class Snapshot(NamedTuple):
    tables: dict[tuple[str, str], str]
    """By file and table: all that a query gives."""
    files: dict[str, bytes]
    """Each with its write-ahead log, and freed pages in both."""
    vectors: bytes
    """All files of the vector index."""
    copy: bytes
    """The journal as an older version had left it; nothing where it is gone."""
    changes: bytes
    """What files held before they were changed."""


def snapshot(folder: Path) -> Snapshot:
    tables: dict[tuple[str, str], str] = {}
    for name in HOLD_WORDS:
        with closing(sqlite3.connect(folder / name)) as db:
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                tables[name, table] = str(db.execute(f"SELECT * FROM {table}").fetchall()).lower()
    return Snapshot(
        tables,
        {name: b"".join(map(Path.read_bytes, folder.glob(f"{name}*"))) for name in HOLD_WORDS},
        b"\n".join(each.read_bytes() for each in folder.rglob("chroma/**/*") if each.is_file()),
        (folder / COPY).read_bytes() if (folder / COPY).exists() else b"",
        b"".join(each.read_bytes() for each in (folder / FILE_CHANGES).glob("*")),
    )


def keep_change(memory: Memory, run_loop_id: str, call_key: str) -> None:
    """As if a tool call had changed a file."""
    change = FileChange(
        id=new_id(),
        owner="me",
        run_loop_id=run_loop_id,
        call_key=call_key,
        path=f"/home/me/{WORD}.txt",
        at=datetime.now(UTC),
        before="0" * 64,
        after="1" * 64,
    )
    memory.file_changes.keep(change, f"the {WORD} was in the barn".encode())


async def fill(memory: Memory, folder: Path) -> None:
    """Put the word into each store."""
    loop = Loop(memory, "source")
    await loop.say(QUESTION, note=WORD)
    await loop.use("look_up", f'{{"what": "{WORD}"}}', f"the {WORD} is in the mill")
    await loop.answer(f"the {WORD} is in the mill")
    message = Message.user(f"and the other {WORD}?")
    entry = InboxEntry("by-hand", "me", message)
    await memory.journal.inbox.accept(entry, idempotency_key=f"{WORD}-key", request_hash="hash")
    await loop.add(MessageReceived(message_id="by-hand", message=message), delivering="by-hand")
    await loop.end()
    exact = f'{{"what": "{WORD}"}}'
    given = StandingApproval("me", "look_up", "look_up", datetime.now(UTC), "source", exact)
    await memory.journal.standing_approvals.narrow(
        memory.journal.standing_approvals.of("me")[0], lambda wide: (wide, given)
    )
    due = Timing(start=datetime.now(UTC) + timedelta(days=1), zone="UTC")
    schedule = Schedule("by-hand", "me", "reminder", f"the {WORD}", due, due.start)
    await memory.journal.schedules.add(replace(schedule, run_loop_id="source"))
    await record_exchange(memory, "other", "how do tulips grow?", "they like sun")
    keep_change(memory, "source", "source/0/call")
    keep_change(memory, "other", "of the same file, later")
    await archived(memory)
    notes = memory.long_term.notes
    [cited] = [
        each
        for each in notes.unread("me", limit=100)
        if each.segment.anchor.segment_type == "response" and WORD in each.segment.content
    ]
    sentence = NewSentence(f"the {WORD} is in the mill", (cited,))
    notes.write("me", [NewSentences("topic", WORD, (sentence,))], read=[])
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as db, db:
        row = ("me", "source", 1, 0, f"cannot be read: {WORD}")
        db.execute("INSERT INTO pending VALUES (?, ?, ?, ?, ?)", row)
        db.execute(
            "INSERT INTO facts SELECT id, owner, ?, NULL, NULL, NULL FROM segments"
            " WHERE run_loop_id = 'source' LIMIT 1",
            (f"the {WORD} is a mill",),
        )


class Forgetting(NamedTuple):
    before: Snapshot
    after: Snapshot
    vector: bytes
    """A stretch of the vector of what was said, as the index writes it."""


@pytest.fixture(scope="module")
def forgetting(tmp_path_factory: pytest.TempPathFactory) -> Forgetting:
    folder = tmp_path_factory.mktemp("memory")
    embedder = NoisyEmbedder()
    vector = beginning_as_kept(embedder, QUESTION)[1]

    async def live() -> Forgetting:
        async with working_memory(folder, embedder) as memory:
            await fill(memory, folder)
            copy_file(folder / "journal.sqlite3", folder / COPY)
            before = snapshot(folder)
            await forget(memory, ForgetRequest(run_loop_ids=("source",)))
            await archived(memory)
            return Forgetting(before, snapshot(folder), vector)

    return anyio.run(live)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "table"), [(name, table) for name, tables in HOLD_WORDS.items() for table in tables]
)
def test_a_table_that_holds_words_loses_them(forgetting: Forgetting, name: str, table: str) -> None:
    assert WORD in forgetting.before.tables[name, table], (
        "it is not there, so the test shows nothing"
    )
    assert WORD not in forgetting.after.tables[name, table]


@pytest.mark.parametrize("name", HOLD_WORDS)
def test_no_freed_page_and_no_log_keeps_a_word(forgetting: Forgetting, name: str) -> None:
    assert WORD.encode() in forgetting.before.files[name]
    assert WORD.encode() not in forgetting.after.files[name]


def test_the_copy_of_an_older_journal_goes(forgetting: Forgetting) -> None:
    assert WORD.encode() in forgetting.before.copy
    assert forgetting.after.copy == b""


def test_what_files_held_before_a_call_changed_them_goes(forgetting: Forgetting) -> None:
    assert WORD.encode() in forgetting.before.changes
    assert forgetting.after.changes == b""


def test_the_vector_index_keeps_no_vector_of_it(forgetting: Forgetting) -> None:
    assert forgetting.vector in forgetting.before.vectors
    assert forgetting.vector not in forgetting.after.vectors


def test_all_other_tables_hold_no_words(forgetting: Forgetting) -> None:
    holding = {key for key, text in forgetting.before.tables.items() if WORD in text}
    shadows = {("memory.sqlite3", f"words_{part}") for part in ("content", "data", "idx")}
    assert holding - shadows == {(n, each) for n, tables in HOLD_WORDS.items() for each in tables}


def test_every_table_and_file_is_listed(forgetting: Forgetting) -> None:
    listed = set(re.findall(r"`([\w.-]+)/?`", DOCS.read_text("utf-8")))
    shadow = re.compile(r"words_\w+|sqlite_sequence")
    tables = {table for _, table in forgetting.before.tables if not shadow.fullmatch(table)}
    assert tables - listed == set()
    files = {"journal.sqlite3", "memory.sqlite3", "chroma", PROMPT_STATES, "script-runs", VERSIONS}
    files |= {".agents", "scripts", FILE_CHANGES, SENT_FILES}
    files |= {"rondo.lock", "rondo.pid", "rondo.toml", "token", COPY}
    assert files - listed == set()


class Reading(FunctionLLM):
    """Keeps what it is to read in advance; of that, the embedded model makes `PROMPT_STATES`."""

    def __init__(self) -> None:
        super().__init__(echo)
        self.openings: list[Sequence[Message]] = []

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        self.openings += openings


@pytest.mark.anyio
async def test_how_prompts_begin_holds_no_word_of_what_was_said(tmp_path: Path) -> None:
    llm = Reading()
    async with running_agent(tmp_path, llm) as agent:
        await sent(agent, QUESTION)
    read = len(llm.openings)
    async with running_agent(tmp_path, llm) as agent:
        await sent(agent, f"and the other {WORD}?")
        await until(lambda: len(llm.openings) > read)
    assert WORD in str(llm.calls)
    assert WORD not in str(llm.openings)
