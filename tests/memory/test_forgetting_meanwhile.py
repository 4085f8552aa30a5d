"""Forgetting while something is under way that holds the words: reindexing, importing, notes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import Problem
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.state import RunLoopState
from service.memory.exchange.importing import Importing
from service.memory.journal.imported_loops import Import, Written
from service.memory.ledger.notes import NewSentence, NewSentences, NoteStore, UnreadSegment
from service.memory.memory import Memory
from service.memory.protocol import Vectors
from tests.support.memory.exchanging import counts, lines, loop, pieces, turn
from tests.support.memory.indexing import NoisyEmbedder, assert_whole, beginning_as_kept, rows
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import (
    archived,
    finished,
    forget,
    record_exchange,
    traces,
    working_memory,
)
from tests.support.server.http_daemon import PatientLLM, running

pytestmark = pytest.mark.anyio

QUESTION = "Where did Zwibbelquast hide the vermilion sextant?"
WORDS = ("Zwibbelquast", "vermilion", "sextant")
SECRET = ForgetRequest(run_loop_ids=("secret",))


# --- a reindex


class HeldEmbedder(NoisyEmbedder):
    """Another embedder, which stops at a text until it may go on."""

    identity = "other noise dimension=64"

    def __init__(self, at: str) -> None:
        super().__init__()
        self._at = at
        self.reached = threading.Event()
        self.may_go_on = threading.Event()

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if any(self._at in text for text in texts):
            self.reached.set()
            assert self.may_go_on.wait(30)
        return super().embed_passages(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return -super().embed(texts)


@pytest.mark.slow
@pytest.mark.parametrize("held_at", [QUESTION, "late"], ids=["while embedded", "once embedded"])
async def test_what_is_forgotten_during_a_reindex_is_in_neither_index(
    tmp_path: Path, held_at: str
) -> None:
    async with working_memory(tmp_path, NoisyEmbedder()) as memory:
        await record_exchange(memory, "secret", QUESTION, "Nobody knows.")
        for number in range(40):  # more than one batch
            await record_exchange(
                memory, f"other{number}", f"question {number}", f"answer {number}"
            )
        await record_exchange(memory, "late", "late question", "late answer")
        await archived(memory)
    embedder = HeldEmbedder(held_at)
    async with working_memory(tmp_path, embedder) as memory:
        await memory.long_term.index.reindex(force=False)
        assert await anyio.to_thread.run_sync(embedder.reached.wait, 30)
        states = rows(tmp_path, "SELECT state FROM generations ORDER BY id")
        assert states == [("active",), ("building",)]
        preview = await memory.forgetting.preview(SECRET, owner="me")
        assert preview.confirm is not None
        receipt = await memory.forgetting.forget(SECRET, preview.confirm, owner="me", stop=_nobody)
        assert receipt.pending == ("vectors",), "the embedder is still at work"
        numbers = "SELECT count(*) FROM segments WHERE run_loop_id = 'secret'"
        assert rows(tmp_path, numbers) == [(0,)]
        embedder.may_go_on.set()
        await finished(memory, receipt)
        await archived(memory)
        response = await memory.long_term.search("question 7", owner="me")
        assert response.mode == "hybrid"
        vectors = []
        for each in (NoisyEmbedder(), embedder):
            vectors += beginning_as_kept(each, QUESTION)
        assert traces(tmp_path, *vectors, *WORDS) == []
        left = beginning_as_kept(embedder, "late question")
        assert all(traces(tmp_path, each) for each in left), "vectors are not found like this"
    assert_whole(tmp_path, segments=82)


# --- an import


async def between(
    memory: Memory, *objects: Any, then: Callable[[], Any]
) -> tuple[Importing, tuple[int, int, int, int]]:
    """Import, and do something once the file was compared with what is here."""
    append = memory.append_imports
    calls = 0

    async def slowly(imports: Sequence[Import], *, owner: str) -> Written:
        nonlocal calls
        calls += 1
        if calls == 1:
            await then()
        return await append(imports, owner=owner)

    memory.append_imports = slowly  # type: ignore[method-assign]
    try:
        importing = Importing(memory, owner="me")
        report = await importing.take(pieces(lines(*objects)))
    finally:
        memory.append_imports = append  # type: ignore[method-assign]
    assert calls, "nothing was about to be written"
    return importing, counts(report)


FIRST = turn(QUESTION, "Nobody knows.")
SECOND = turn("What do tulips like?", "Sun.")
THIRD = turn("And roses?", "Sun, too.")


@pytest.mark.slow
async def test_an_import_under_way_does_not_bring_back_a_forgotten_run_loop(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await Importing(memory, owner="me").take(pieces(lines(loop("secret", FIRST))))
        importing, counted = await between(
            memory, loop("secret", FIRST, SECOND), then=lambda: forget(memory, SECRET)
        )
        assert counted == (0, 0, 0, 1)
        assert "forgotten" in importing.report().failed[0].problem
        await archived(memory)
        assert traces(tmp_path, *WORDS) == []
        # Whoever brings it in afterwards wants it back.
        again = Importing(memory, owner="me")
        assert counts(await again.take(pieces(lines(loop("secret", FIRST))))) == (1, 0, 0, 0)


@pytest.mark.slow
async def test_an_import_that_has_yet_to_come_to_a_forgotten_run_loop_leaves_it_out(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await Importing(memory, owner="me").take(pieces(lines(loop("secret", FIRST))))

        async def slow_file() -> Any:
            yield lines(loop("other", SECOND))
            await forget(memory, SECRET)
            yield lines(loop("secret", FIRST))

        report = await Importing(memory, owner="me").take(slow_file())
        assert counts(report) == (1, 0, 0, 1)
        await archived(memory)
        assert traces(tmp_path, *WORDS) == []


@pytest.mark.slow
async def test_an_import_that_read_a_run_loop_before_it_lost_an_iteration_leaves_that_out(
    tmp_path: Path,
) -> None:
    part = ForgetRequest(anchors=(AnchorRef("part", 0, 0),))
    async with working_memory(tmp_path) as memory:
        await Importing(memory, owner="me").take(pieces(lines(loop("part", FIRST, SECOND))))
        _, counted = await between(
            memory, loop("part", FIRST, SECOND, THIRD), then=lambda: forget(memory, part)
        )
        assert counted == (0, 1, 0, 0)
        await archived(memory)
        assert traces(tmp_path, *WORDS) == []
        kept = await memory.load("part")
        assert kept is not None
        assert [each.response for each in kept.iterations][1:] == ["Sun.", "Sun, too."]


@pytest.mark.slow
async def test_an_import_goes_on_when_another_run_loop_is_forgotten_meanwhile(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        given = (loop("secret", FIRST), loop("part", SECOND))
        await Importing(memory, owner="me").take(pieces(lines(*given)))
        _, counted = await between(
            memory, loop("part", SECOND, THIRD), then=lambda: forget(memory, SECRET)
        )
        assert counted == (0, 1, 0, 0)


@pytest.mark.slow
async def test_what_was_imported_but_not_archived_yet_does_not_come_back(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        archive = memory.archivist.archive

        async def late(states: Sequence[RunLoopState], *, read_at: int) -> Problem | None:
            await forget(memory, SECRET)
            return await archive(states, read_at=read_at)

        memory.archivist.archive = late  # type: ignore[method-assign]
        await Importing(memory, owner="me").take(
            pieces(lines(loop("secret", FIRST), loop("other", SECOND)))
        )
        await archived(memory)
        assert (await memory.long_term.stats()).run_loops == 1
        assert traces(tmp_path, *WORDS) == []


# --- notes


def unread(notes: NoteStore) -> dict[str, UnreadSegment]:
    return {each.segment.anchor.text: each for each in notes.unread("me", limit=100)}


def note(*sentences: NewSentence) -> NewSentences:
    return NewSentences("person", "Zwibbelquast", sentences)


@pytest.mark.slow
async def test_sentences_of_notes_fall_with_what_they_rest_on(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "secret", QUESTION, "Nobody knows.")
        await record_exchange(memory, "other", "Ada lives in Basel.", "Noted.")
        await archived(memory)
        there = unread(memory.long_term.notes)
        mine = NewSentence("Zwibbelquast owns a sextant.", (there["secret:0.0"],))
        both = NewSentence(
            "Ada and the sextant are in Basel.", (there["other:0.0"],), (there["secret:0.0"],)
        )
        hers = NewSentences(
            "person", "Ada", (NewSentence("Ada is in Basel.", (there["other:0.0"],)), both)
        )
        written = memory.long_term.notes.write("me", [note(mine), hers], read=list(there.values()))
        assert written == 3
        receipt = await forget(memory, SECRET)
        assert receipt.removed.notes == 2
        [left] = memory.long_term.notes.of("me")
        assert [each.text for each in left.sentences] == ["Ada is in Basel."]
        assert traces(tmp_path, *WORDS) == []


@pytest.mark.slow
async def test_a_note_that_was_being_written_when_its_words_were_forgotten_is_not(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "secret", QUESTION, "Nobody knows.")
        await record_exchange(memory, "part", "The vermilion sextant is Ada's.", "Noted.")
        await archived(memory)
        there = unread(memory.long_term.notes)
        await forget(memory, SECRET)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("part", 0, 0),)))
        await record_exchange(memory, "later", "Rye bread wants sourdough.", "It does.")
        await archived(memory)
        sentences = [
            NewSentence("Zwibbelquast owns a sextant.", (there["secret:0.0"],)),
            NewSentence("The vermilion sextant is Ada's.", (there["part:0.0"],)),
        ]
        read = list(there.values())
        assert memory.long_term.notes.write("me", [note(*sentences)], read=read) == 0
        assert memory.long_term.notes.of("me") == []
        assert traces(tmp_path, *WORDS) == []
        assert {"later:0.0", "later:0.1"} <= unread(memory.long_term.notes).keys()


# --- logs


@pytest.mark.slow
async def test_no_log_of_the_house_nor_of_its_libraries_holds_the_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for name in ("service", "chromadb", "httpx", "httpx2", "httpcore", "uvicorn", "aiosqlite"):
        caplog.set_level("DEBUG", logger=name)
    # Not uvicorn's own words about a request: it may be told not to hand them on.
    for name in ("uvicorn.access", "uvicorn.error"):
        caplog.set_level("DEBUG", logger=name)
    async with running(tmp_path, llm=PatientLLM(), embedder=WordEmbedder()) as served:
        post = served.client.post
        sent = await served.send(QUESTION)
        await post(f"/v1/run-loops/{sent['run_loop_id']}/complete")
        await archived(served.agent.memory)
        response = await post("/v1/memory/search", json={"query": "vermilion sextant"})
        assert response.json()["hits"]
        query: dict[str, Any] = {"query": "Zwibbelquast", "exact": True}
        preview = (await post("/v1/memory/forget", json=query)).json()
        answer = await post("/v1/memory/forget", json={**query, "confirm": preview["confirm"]})
        assert answer.status_code == 200, answer.text
        await archived(served.agent.memory)
        await served.client.get("/v1/memory/stats")
    heard = {record.name.partition(".")[0] for record in caplog.records}
    assert "service" in heard, "nothing is heard, so the test shows nothing"
    assert logging.getLogger("service").isEnabledFor(logging.DEBUG)
    assert [word for word in WORDS if word in caplog.text] == []


async def _nobody(run_loop_id: str) -> None:
    raise AssertionError("nothing was to be stopped")
