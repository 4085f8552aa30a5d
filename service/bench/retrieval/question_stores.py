"""Stores to ask, and questions of which it is known whether anything in them is about it.

Of each set: all of it, with its own questions; a few run loops of it; half of it, with questions
that the other half answers; and with questions of other sets. At last all sets together.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from service.bench.retrieval.evaluation_store import OWNER, fill, opened
from service.bench.retrieval.retrieval_dataset import DataSet, Query
from service.bench.retrieval.retrieval_metrics import Place
from service.domain.anchors import MemoryHit
from service.domain.run_loops import RunLoop
from service.memory.protocol import Embedded, Embedder, TokenStates, Vectors, by_token
from service.memory.run_loop_lines import line_of

Kind = Literal["said", "near", "far"]
"""Something in the store answers it; something is of the same topic, or of the same people, and
does not; nothing has to do with it."""

_NEAR = "near"
_FEW_STORES = 10
_FEW = (1, 2, 3)
_FEW_STRAYS = 8
LOOKED_AT = 10
"""How many hits are asked for."""


class Asked(NamedTuple):
    """A question put to a store."""

    query: Query
    kind: Kind
    of: str
    """What is counted together: the set's name and the question's category."""


@dataclass(frozen=True, slots=True)
class Store:
    """Run loops, and what they are asked."""

    name: str
    run_loops: Sequence[RunLoop]
    asked: Sequence[Asked]


def stores_of(sets: Sequence[DataSet], *, most: int, seed: int) -> Iterator[Store]:
    """All stores. Which run loops and questions are drawn depends on `seed` alone.

    Args:
        sets: what there is. Sets that are named alike up to the first hyphen are of one kind:
            their questions are not taken for strays with each other.
        most: questions of a set that are asked of one store.
        seed: of what is drawn.
    """
    drawn = random.Random(seed)

    def some(asked: Sequence[Asked]) -> list[Asked]:
        return drawn.sample(asked, min(most, len(asked)))

    for each in sets:
        own, unsaid = _own(each), _unsaid(each)
        yield Store(each.name, each.run_loops, some(own) + some(unsaid))
        strays = [a for o in sets if _kind(o) != _kind(each) for a in some(_strays(o, each.name))]
        yield Store(f"{each.name} strays", each.run_loops, strays)
        if len(each.run_loops) < 2 or not own:
            continue
        kept = drawn.sample(list(each.run_loops), len(each.run_loops) // 2)
        yield Store(f"{each.name} half", kept, some(_left_out(each, kept)))
        for _ in range(_FEW_STORES):
            few = drawn.sample(list(each.run_loops), min(drawn.choice(_FEW), len(each.run_loops)))
            yield Store(f"{each.name} few", few, _of_few(each, few, drawn))
    together = [loop for each in sets for loop in each.run_loops]
    asked = [a for each in sets for a in (*some(_own(each)), *some(_unsaid(each)))]
    yield Store("together", together, [a._replace(of=f"together: {a.of}") for a in asked])


def _own(each: DataSet) -> list[Asked]:
    # LoCoMo's questions with a false premise name the passage that they twist.
    return [
        Asked(query, "near" if query.category == "adversarial" else "said", _of(each, query))
        for query in each.queries
    ]


def _unsaid(each: DataSet) -> list[Asked]:
    return [
        Asked(query, "near" if query.category.startswith(_NEAR) else "far", _of(each, query))
        for query in each.unanswered
    ]


def _strays(of: DataSet, to: str) -> list[Asked]:
    queries = (*of.queries, *of.unanswered)
    return [Asked(_bare(query), "far", f"{of.name} asked of {to}") for query in queries]


def _left_out(each: DataSet, kept: Sequence[RunLoop]) -> list[Asked]:
    ids = {loop.id for loop in kept}
    return [
        Asked(_bare(query), "near", f"{each.name}, left out")
        for query in each.queries
        if query.category != "adversarial" and ids.isdisjoint(_loops(query))
    ]


def _of_few(each: DataSet, few: Sequence[RunLoop], drawn: random.Random) -> list[Asked]:
    ids = {loop.id for loop in few}
    said = [a for a in _own(each) if a.kind == "said" and _loops(a.query) <= ids]
    others = [query for query in each.queries if ids.isdisjoint(_loops(query))]
    strays = drawn.sample(others, min(_FEW_STRAYS, len(others)))
    # In one long conversation, everything has to do with everything.
    kind: Kind = "far" if len(each.run_loops) > len(each.queries) / 4 else "near"
    said = drawn.sample(said, min(2 * _FEW_STRAYS, len(said)))
    return [a._replace(of=f"{each.name}, few") for a in said] + [
        Asked(_bare(query), kind, f"{each.name}, few") for query in strays
    ]


def _of(each: DataSet, query: Query) -> str:
    return f"{each.name}, {query.category}" if query.category else each.name


def _bare(query: Query) -> Query:
    return query.model_copy(update={"evidence": ()})


def _loops(query: Query) -> set[str]:
    return {each.run_loop_id for each in query.evidence}


def _kind(each: DataSet) -> str:
    return each.name.partition("-")[0]


class Answer(NamedTuple):
    """A question, and what a store had to say."""

    asked: Asked
    hits: Sequence[MemoryHit]
    """Best first, explained."""
    segments: int
    """How many the store has."""

    @property
    def relevance(self) -> float:
        """Of the best hit; 0 where there is none."""
        return self.hits[0].relevance if self.hits else 0.0

    @property
    def related(self) -> bool:
        """Whether any hit seems to be about the question."""
        return any(hit.related for hit in self.hits)

    @property
    def evidence(self) -> list[MemoryHit]:
        """The hits that answer it."""
        places = self.asked.query.places
        return [hit for hit in self.hits if Place.of(hit.anchor) in places]


async def ask(store: Store, embedder: Embedder | None, *, now: datetime) -> list[Answer]:
    """Fill a fresh folder with a store, and ask each question once.

    Raises:
        BenchmarkError: the store could not be filled.
    """
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        home, lines = Path(folder) / "data", Path(folder) / "run_loops.jsonl"
        home.mkdir(mode=0o700)
        lines.write_bytes(b"".join(map(line_of, store.run_loops)))
        await fill(home, lines, embedder)
        async with opened(home, embedder, now=now) as memory:
            segments = (await memory.stats()).segments
            answers = []
            for asked in store.asked:
                words = asked.query.query
                results = await memory.search(words, owner=OWNER, limit=LOOKED_AT, explain=True)
                answers.append(Answer(asked, results.hits, segments))
            return answers


class KeptVectors:
    """Keeps all vectors and states: most texts stand in several stores. Satisfies `TokenEmbedder`.

    States are kept as 16-bit floats: only their signs count in the end.
    """

    def __init__(self, embedder: Embedder) -> None:
        """Put it before an embedder."""
        self._embedder = embedder
        self._by_token = by_token(embedder)
        self._passages: dict[str, tuple[Vectors, TokenStates | None]] = {}

    @property
    def identity(self) -> str:
        """The embedder's own."""
        return self._embedder.identity

    @property
    def token_identity(self) -> str | None:
        """The embedder's own; None where it gives no states of tokens."""
        return self._by_token.token_identity if self._by_token else None

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        return self._embedder.embed_queries(texts)

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_queries_by_token`."""
        if self._by_token is None:
            return Embedded(self.embed_queries(texts), None)
        return self._by_token.embed_queries_by_token(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        return self.embed_passages_by_token(texts).vectors

    def embed_passages_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_passages_by_token`."""
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if text not in self._passages]
        if missing:
            new = self._embed(missing)
            for at, text in enumerate(missing):
                states = new.tokens[at] if new.tokens else None
                if states is not None:
                    states = states._replace(states=states.states.astype(np.float16))
                self._passages[text] = new.vectors[at], states
        kept = [self._passages[text] for text in texts]
        tokens = [states for _, states in kept if states is not None]
        return Embedded(
            np.stack([vector for vector, _ in kept]), tokens if len(tokens) == len(kept) else None
        )

    def wait_for_tokens(self, seconds: float) -> bool | None:
        """See `TokenEmbedder.wait_for_tokens`."""
        return self._by_token.wait_for_tokens(seconds) if self._by_token else None

    def _embed(self, texts: Sequence[str]) -> Embedded:
        if self._by_token is None:
            return Embedded(self._embedder.embed_passages(texts), None)
        return self._by_token.embed_passages_by_token(texts)
