"""The vectors of what was said in open run loops: made once, ahead of time, and discarded.

A decision then waits for the vector of the message alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import anyio

from service.domain.conversation.messages import Role
from service.memory.embedders.bundled_e5 import QUERY_PROMPT
from service.memory.embedders.prompts import embeddable
from service.memory.protocol import Vectors
from service.routing.routing_model import shipped
from service.routing.text.text_reading import Asked, Candidate, Turn, Vector
from service.tuning import (
    ROUTER_AHEAD_BATCH,
    ROUTER_KEPT_CHARACTERS,
    ROUTER_KEPT_VECTORS,
    ROUTER_TURN_CHARACTERS,
)

EmbedQueries = Callable[[Sequence[str]], Awaitable[Vectors | None]]
"""Vectors of texts, one row each; None while there is no embedder that the model knows."""

_PROMPT = f" query={QUERY_PROMPT!r} "

_Said = tuple[str, Role]
"""Words and who said them."""


class TurnVectors:
    """Keeps the vectors of the turns that were asked for last."""

    def __init__(self, embed: EmbedQueries, *, kept: int = ROUTER_KEPT_VECTORS) -> None:
        """Keep what `embed` gives, at most `kept` vectors."""
        self._embed = embed
        self._size = kept
        self._vectors: OrderedDict[_Said, Vector] = OrderedDict()
        self._emptied = 0
        self._making = anyio.Lock()

    async def of_message(
        self, text: str, candidates: Sequence[Candidate]
    ) -> tuple[Vector | None, Sequence[Candidate]]:
        """The vector of a message, and the candidates, each of their turns with its own.

        Returns:
            Shape (dimension,), length 1; None, and the candidates as they were, while there is no
            embedder that the model knows.
        """
        emptied = self._emptied
        message = _key(text, "user")
        keys = dict.fromkeys(said for each in candidates for said in _said(each))
        fresh = await self._made(self._missing([message]), emptied)
        vector = self._vectors.get(message, fresh.get(message))
        if vector is None:
            return None, candidates
        if self._missing(keys):
            async with self._making:  # it may be under way
                fresh |= await self._made(self._missing(keys), emptied)
        for said in keys:
            if said in self._vectors:
                self._vectors.move_to_end(said)
        return vector, [self._with_vectors(each, fresh) for each in candidates]

    async def make_ahead(self, candidates: Iterable[Candidate]) -> bool:
        """Make the vectors of what was said in run loops, a few at a time.

        Returns:
            Whether all are made: not while there is no embedder that the model knows, nor where
            words were forgotten meanwhile.
        """
        missing = self._missing(said for each in candidates for said in _said(each))
        emptied = self._emptied
        for start in range(0, len(missing), ROUTER_AHEAD_BATCH):
            async with self._making:
                if emptied != self._emptied:  # some of these words may be those that were forgotten
                    return False
                batch = self._missing(missing[start : start + ROUTER_AHEAD_BATCH])
                if batch and not await self._made(batch, emptied):
                    return False
        return True

    def clear(self) -> None:
        """Keep no words."""
        self._vectors.clear()
        self._emptied += 1

    def _missing(self, keys: Iterable[_Said]) -> list[_Said]:
        return [said for said in dict.fromkeys(keys) if said not in self._vectors]

    async def _made(self, missing: Sequence[_Said], emptied: int) -> dict[_Said, Vector]:
        """Vectors, kept unless the cache was emptied since it had been so `emptied` times."""
        if not missing:
            return {}
        vectors = await self._embed([embedded_text(*said) for said in missing])
        if vectors is None:
            return {}
        by_text = dict(zip(missing, vectors, strict=True))
        if emptied == self._emptied:  # what was forgotten meanwhile shall not come back
            self._vectors.update(by_text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return by_text

    def _with_vectors(self, candidate: Candidate, fresh: Mapping[_Said, Vector]) -> Candidate:
        kept, asked = self._vectors, candidate.asked

        def with_vector(turn: Turn) -> Turn:
            said = _key(turn.text, turn.role)
            return Turn(turn.text, turn.role, turn.at, kept.get(said, fresh.get(said)))

        return Candidate(
            id=candidate.id,
            goal=with_vector(candidate.goal),
            turns=[with_vector(turn) for turn in candidate.turns],
            turn_count=candidate.turn_count,
            awaiting=candidate.awaiting,
            asked=None if asked is None else _with_own(asked, with_vector),
        )


def _with_own(asked: Asked, with_vector: Callable[[Turn], Turn]) -> Asked:
    options = tuple(with_vector(option) for option in asked.options)
    return replace(asked, question=with_vector(asked.question), options=options)


def is_known(identity: str | None) -> bool:
    """Whether the trained model knows an embedder's vectors, by the embedder's identity.

    Blocks for a moment where the model is still to be read.
    """
    return identity is not None and f" {shipped().embedder} " in identity and _PROMPT in identity


def embedded_text(text: str, role: Role) -> str:
    """What of words is embedded; never empty.

    A person's words whole, as recall embeds them too; of the assistant's the beginning, as in the
    training.
    """
    return embeddable(text if role == "user" else text[:ROUTER_TURN_CHARACTERS])


def _key(text: str, role: Role) -> _Said:
    """Under which the vector of words is kept: not under a whole long text."""
    return (text if len(text) <= ROUTER_KEPT_CHARACTERS else embedded_text(text, role)), role


def _said(candidate: Candidate) -> Iterable[_Said]:
    if candidate.goal.text:
        yield _key(candidate.goal.text, candidate.goal.role)
    for turn in candidate.turns:
        yield _key(turn.text, turn.role)
    if candidate.asked is not None:
        for turn in (candidate.asked.question, *candidate.asked.options):
            yield _key(turn.text, turn.role)
