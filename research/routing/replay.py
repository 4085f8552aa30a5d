"""Conversations replayed: each message of a person's with the threads it could have joined.

Teacher-forced: whatever was decided, each message then joins its true thread. For the training,
which wants the features of many messages at once; `rondo bench routing` goes through the router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.bench.routing.routing_dataset import files as files
from service.bench.routing.routing_dataset import said_in
from service.bench.routing.teacher_forcing import ACTIVE_SECONDS
from service.routing.text.text_reading import MOST_TURNS, Candidate, Turn, Vector

EMBEDDED_CHARACTERS = 400
"""How much of a text is embedded."""
_BATCH = 64

EmbedQueries = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A message, and where it truly belongs."""

    file: int
    id: str
    turn: Turn
    candidates: tuple[Candidate, ...]
    right: int
    """The true candidate; -1 for a new one."""


@dataclass(slots=True)
class _Thread:
    goal: Turn
    turns: list[Turn]
    count: int


def replay(folder: Path, vectors: Mapping[str, Vector]) -> Iterator[Asked]:
    """Every message of a person's, in order; `vectors` by `embedded_text`, missing ones are None.

    Raises:
        BenchmarkError: a file cannot be read, or a line is not of the form.
    """
    for number, path in enumerate(files(folder)):
        threads: dict[str, _Thread] = {}
        for said in said_in(path):
            at = said.at.timestamp()
            turn = Turn(said.text, said.role, at, vectors.get(embedded_text(said.text)))
            if turn.role == "user":
                active = [
                    key
                    for key, thread in threads.items()
                    if at - thread.turns[-1].at <= ACTIVE_SECONDS
                ]
                right = active.index(said.thread) if said.thread in active else -1
                candidates = tuple(_candidate(key, threads[key]) for key in active)
                yield Asked(number, said.id, turn, candidates, right)
            thread = threads.setdefault(said.thread, _Thread(turn, [], 0))
            thread.turns = [*thread.turns, turn][-MOST_TURNS:]
            thread.count += 1


def _candidate(key: str, thread: _Thread) -> Candidate:
    return Candidate(key, thread.goal, thread.turns, thread.count)


def embedded_text(text: str) -> str:
    """What of a text is embedded; never empty."""
    return text[:EMBEDDED_CHARACTERS].strip() or " "


def embedded(
    folders: Sequence[Path], embed: EmbedQueries, cache: Path | None = None
) -> dict[str, Vector]:
    """The vectors of all texts; those that a cache file knows are not embedded again."""
    vectors: dict[str, Vector] = {}
    if cache is not None and cache.exists():
        with np.load(cache, allow_pickle=False) as stored:
            vectors = dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))
    texts = dict.fromkeys(
        embedded_text(said.text)
        for folder in folders
        for path in files(folder)
        for said in said_in(path)
    )
    missing = [text for text in texts if text not in vectors]
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        vectors.update(zip(batch, embed(batch), strict=True))
    if cache is not None and missing:
        np.savez(cache, texts=np.array(list(vectors)), vectors=np.stack(list(vectors.values())))
    return vectors
