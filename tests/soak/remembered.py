"""The work that is killed, the work that finishes it, and what must be there then."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, cast

import anyio
import numpy as np

from service.bench.memory.memory_dataset import Corpus
from service.domain.history.events import RunLoopImported
from service.domain.run_loops import RunLoop
from service.memory.exchange.importing import Importing
from service.memory.journal.imported_loops import Import
from service.memory.ledger.segmenter import segment
from service.memory.long_term import LongTermMemory
from service.memory.memory import Memory
from service.memory.protocol import SearchFilters, Vectors
from service.memory.run_loop_lines import line_of

Kind = Literal["archive", "import", "reindex"]
KINDS: tuple[Kind, ...] = ("archive", "import", "reindex")
OWNER = "me"

_SAMPLE = 12
_T = TypeVar("_T")


class CheapEmbedder:
    """Vectors out of a text's hash, so that the model's time does not hide the writes."""

    def __init__(self, name: str) -> None:
        self.identity = f"soak {name} dimension=64"
        self._salt = zlib.crc32(name.encode())

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        seeds = [[self._salt, zlib.crc32(text.encode())] for text in texts]
        rows = np.array([np.random.default_rng(seed).standard_normal(64) for seed in seeds])
        unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit


def run_loops(seed: int, count: int) -> list[RunLoop]:
    """The loops that are to be remembered."""
    return list(islice(Corpus(seed).run_loops(owner=OWNER), count))


def embedder_of(kind: Kind) -> CheapEmbedder:
    """Whose vectors the index must hold in the end: a reindex is from the first to the second."""
    return CheapEmbedder("second" if kind == "reindex" else "first")


def act(kind: Kind, folder: Path, seed: int, count: int) -> None:
    """Do the whole work, from wherever it stands: what is killed, and what finishes it."""
    anyio.run(_act, kind, folder, run_loops(seed, count))


async def _act(kind: Kind, folder: Path, loops: Sequence[RunLoop]) -> None:
    async with Memory(folder, embedder_of(kind)) as memory, anyio.create_task_group() as group:
        await group.start(memory.archivist.run)
        if kind == "import":
            await _import(memory, loops)
        elif kind == "archive":
            for half in (True, False):
                await _journal(memory, loops, half=half)
                await memory.archivist.drain()
        else:
            await memory.long_term.warm_up()
            await memory.long_term.index.reindex(force=False)
        problem = await memory.archivist.drain()
        assert problem is None, problem
        await _search_a_sample(memory.long_term, loops)
        group.cancel_scope.cancel()


async def _import(memory: Memory, loops: Sequence[RunLoop]) -> None:
    report = await Importing(memory, owner=OWNER).take(_lines(loops))
    assert not report.failures, report


async def _journal(memory: Memory, loops: Sequence[RunLoop], *, half: bool) -> None:
    """Write each loop to the journal alone, as it was halfway, and once more when it had grown:
    whatever is not there yet. The archivist finds it there."""
    for loop in loops:
        existing = await memory.journal.imports.existing([loop.id])
        if half and existing:
            continue
        as_it_was = loop.iterations[: len(loop.iterations) // 2] if half else loop.iterations
        body = RunLoopImported(
            run_loop=loop.model_copy(update={"iterations": as_it_was}), source="soak"
        )
        before = await memory.journal.replay(loop.id) if existing else None
        if before is not None and before.iterations == as_it_was:
            continue
        imported = Import(loop.id, body, body.model_dump_json(), before)
        await memory.journal.imports.append([imported], owner=OWNER)


async def _lines(loops: Sequence[RunLoop]) -> AsyncIterator[bytes]:
    for loop in loops:
        yield line_of(loop)


async def _search_a_sample(memory: LongTermMemory, loops: Sequence[RunLoop]) -> None:
    for loop in loops[:: max(1, len(loops) // _SAMPLE)]:
        piece = segment(loop)[-1]
        result = await memory.search(
            piece.content,
            owner=OWNER,
            limit=50,
            filters=SearchFilters(run_loop_id=loop.id),
        )
        assert result.mode == "hybrid", result.notice
        anchors = {str(hit.anchor) for hit in result.hits}
        assert str(piece.anchor) in anchors, f"{piece.anchor} is not found: {anchors}"


def problems(kind: Kind, folder: Path, seed: int, count: int) -> list[str]:
    """What is not there exactly once, read from the files without Rondo's own code."""
    loops = run_loops(seed, count)
    complaints: list[str] = []
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as db:
        complaints += _damage(db)
        complaints += _of_loops(db, loops)
        complaints += _of_words(db)
        complaints += _of_vectors(db, kind, folder / "chroma")
    if kind == "import":
        with closing(sqlite3.connect(folder / "journal.sqlite3")) as db:
            complaints += _damage(db)
            events = db.execute("SELECT run_loop_id FROM events").fetchall()
            complaints += _difference(
                "events", Counter(row[0] for row in events), Counter(loop.id for loop in loops)
            )
    return complaints


def _damage(db: sqlite3.Connection) -> Iterator[str]:
    for (words,) in db.execute("PRAGMA integrity_check"):
        if words != "ok":
            yield f"damaged: {words}"


def _of_loops(db: sqlite3.Connection, loops: Sequence[RunLoop]) -> Iterator[str]:
    statuses = db.execute("SELECT id, status FROM run_loops").fetchall()
    yield from _difference(
        "run loops", Counter(statuses), Counter((loop.id, "completed") for loop in loops)
    )
    iterations = db.execute("SELECT run_loop_id, iteration FROM iterations").fetchall()
    yield from _difference(
        "iterations",
        Counter(iterations),
        Counter((loop.id, index) for loop in loops for index in range(len(loop.iterations))),
    )
    segments = db.execute("SELECT run_loop_id, iteration, segment, text FROM segments").fetchall()
    expected = ((*piece.anchor.ref, piece.content) for loop in loops for piece in segment(loop))
    yield from _difference("segments", Counter(segments), Counter(expected))


def _of_words(db: sqlite3.Connection) -> Iterator[str]:
    try:
        db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        yield f"words are damaged: {error}"
    db.rollback()
    yield from _difference(
        "words",
        Counter(db.execute("SELECT rowid FROM words").fetchall()),
        Counter(db.execute("SELECT id FROM segments").fetchall()),
    )


def _of_vectors(db: sqlite3.Connection, kind: Kind, folder: Path) -> Iterator[str]:
    numbers = Counter(row[0] for row in db.execute("SELECT id FROM segments"))
    vectors = Counter(row[0] & ((1 << 40) - 1) for row in db.execute("SELECT id FROM vectors"))
    yield from _difference("vectors", vectors, numbers)
    generations = db.execute(
        "SELECT g.id, g.state, e.identity FROM generations g JOIN embedders e ON e.id = g.embedder"
    ).fetchall()
    if [row[1:] for row in generations] != [("active", embedder_of(kind).identity)]:
        yield f"generations: {generations}"
        return
    folders = sorted(path.name for path in folder.iterdir())
    if folders != [str(generations[0][0])]:
        yield f"folders in chroma: {folders} for generation {generations[0][0]}"
        return
    indexed = Counter(row[0] for row in db.execute("SELECT segment FROM indexed"))
    yield from _difference("rows of the index", indexed, numbers)
    unneeded = db.execute("SELECT count(*) FROM unneeded").fetchone()[0]
    if unneeded:
        yield f"{unneeded} vectors are still to be dropped"
    yield from _difference("Chroma", _in_chroma(folder / folders[0]), numbers)


def _in_chroma(folder: Path) -> Counter[int]:
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
    held: Counter[int] = Counter()
    for collection in client.list_collections():
        ids = cast(list[str], collection.get(include=[])["ids"])
        held.update(int(each) for each in ids)
        vectors = collection.get(ids=ids[:1], include=["embeddings"])["embeddings"]
        nearest = collection.query(query_embeddings=vectors, n_results=1, include=[])
        held.update(int(each) for each in set(nearest["ids"][0]) - set(ids))
    return held


def _difference(what: str, actual: Counter[_T], expected: Counter[_T]) -> Iterator[str]:
    lost, too_many = expected - actual, actual - expected
    if lost:
        yield f"{what}: {lost.total()} lost, such as {json.dumps(next(iter(lost)), default=str)}"
    if too_many:
        example = json.dumps(next(iter(too_many)), default=str)
        yield f"{what}: {too_many.total()} too many, such as {example}"
