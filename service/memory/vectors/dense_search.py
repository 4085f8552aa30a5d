"""The dense side of memory: an embedder, and the index of its vectors, as searching sees them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from service.domain.errors import ConflictError, EmbeddingError, IndexDamagedError, Problem
from service.domain.text import Script
from service.memory.protocol import Embedded, Embedder, Vectors, by_token
from service.memory.vectors import token_codes
from service.memory.vectors.embedding_store import PROBE, KnownVectors
from service.memory.vectors.index_keeper import IndexKeeper
from service.memory.vectors.protocol import Nearest
from service.memory.vectors.unrelated_cosines import Languages, languages_of

_NO_LENGTH = 1e-6


class LoadedEmbedder(NamedTuple):
    """What is known of the embedder once it is loaded."""

    identity: str
    number: int
    """Under which its vectors are kept."""
    dimension: int
    coding: int | None
    """Under which the codes of its tokens are kept; None where it gives no states of tokens."""


class DenseSide:
    """Loads the embedder on the first call of `load`. The methods block; callers use threads."""

    def __init__(self, embedder: Embedder, keeper: IndexKeeper) -> None:
        self._embedder = embedder
        self._by_token = by_token(embedder)
        self._keeper = keeper
        self._states = keeper.states
        self._loading = threading.Lock()
        self.loaded: LoadedEmbedder | None = None
        """None before the embedder is loaded."""
        self._languages: Languages | None = None
        self._measured = False
        self.problem: Problem | None = None
        """Why the last attempt to load, embed or index failed."""

    @property
    def identity(self) -> str | None:
        """The embedder's identity; None before it is loaded."""
        return self.loaded.identity if self.loaded else None

    def load(self) -> None:
        """Load the embedder, once, from whichever thread comes first.

        Raises:
            EmbeddingError: the embedder cannot be used.
            StorageError: the ledger cannot be written.
        """
        with self._loading:
            if self.loaded is None:
                probe = self._embedder.embed_queries([PROBE])  # loads what is lazy
                number = self._states.embedder(self._embedder.identity, probe)
                identity = self._states.identity(number)
                coding = self._coding(identity)
                self.loaded = LoadedEmbedder(identity, number, probe.shape[1], coding)

    def _coding(self, identity: str) -> int | None:
        of_tokens = self._by_token.token_identity if self._by_token else None
        if of_tokens is None or identity != self._embedder.identity:  # another model of that name
            return None
        return self._states.embedder(f"{of_tokens} {token_codes.FORMAT}")

    @property
    def languages(self) -> Languages | None:
        """Where unrelated texts lie, and the same in two languages; None when it cannot be told.

        Of an embedder that is not known it is measured when it is first asked for.
        """
        with self._loading:
            if not self._measured:
                self._languages, self._measured = languages_of(self._embedder), True
            return self._languages

    def why_not(self) -> str | None:
        """Why vectors cannot be searched now, in words; None when they can."""
        keeper = self._keeper
        if self.loaded is not None and keeper.active is not None:
            return None
        if self.loaded is not None and keeper.built_by is not None:
            built, configured = self.differing_embedders() or ("another", "this one")
            words = f"the index was built by {built}, but {configured} is configured"
            if keeper.building is not None:
                return f"{words}; the new index is being built."
            return f"{words}. `rondo memory reindex` builds the new index."
        if self.problem is not None:
            return self.problem.in_words()
        if self.loaded is not None and keeper.building is not None:
            return "the vector index is being built anew."
        if self.loaded is not None and keeper.damaged:
            return "the vector index is damaged; it will be built anew."
        return "the embedder is still being loaded."

    def differing_embedders(self) -> tuple[str, str] | None:
        """Which embedder built the index and which is configured, when they are not the same.

        As short as tells them apart: the model's names, or the whole identities.
        """
        built_by = self._keeper.built_by
        if built_by is None or self.loaded is None:
            return None
        whole = self._states.identity(built_by), self.loaded.identity
        built, configured = (" ".join(identity.split(" ")[:2]) for identity in whole)
        return whole if built == configured else (built, configured)

    def embed_queries(self, texts: Sequence[str]) -> Embedded:
        """Vectors of questions, with the states of their tokens where these are compared.

        Raises:
            EmbeddingError: they cannot be embedded.
        """
        if self._by_token is None or self.loaded is None or self.loaded.coding is None:
            return Embedded(self._embedder.embed_queries(texts), None)
        return self._by_token.embed_queries_by_token(texts)

    def embed_passages(self, texts: Sequence[str]) -> Embedded:
        """Vectors of what is remembered, with the states of its tokens if they can be had now.

        Raises:
            EmbeddingError: they cannot be embedded.
        """
        if self._by_token is None or self.loaded is None or self.loaded.coding is None:
            return Embedded(self._embedder.embed_passages(texts), None)
        return self._by_token.embed_passages_by_token(texts)

    def wait_for_tokens(self, seconds: float) -> bool | None:
        """See `TokenEmbedder.wait_for_tokens`."""
        return None if self._by_token is None else self._by_token.wait_for_tokens(seconds)

    def in_other_language(self, vector: Vectors, script: Script) -> Vectors | None:
        """Where a question would lie if it were asked in the other language; None when unknown.

        Args:
            vector: of the question: one row of length 1.
            script: that it is asked in.
        """
        languages = self.languages
        if languages is None:
            return None
        moved = vector + (-languages.shift if script == "han" else languages.shift)
        length = float(np.linalg.norm(moved))
        return moved / length if length > _NO_LENGTH else None

    def nearest(self, vectors: Vectors, *, owner: str, limit: int) -> list[list[Nearest]]:
        """The segments of this owner nearest in meaning to each of some questions, best first.

        Args:
            vectors: of the questions: rows of length 1.
            owner: whose segments.
            limit: at most so many for each.

        Raises:
            ConflictError: there is no index to search; says why.
            StorageError: the index cannot be read.
        """
        active = self._keeper.active
        if active is None:
            raise ConflictError(self.why_not() or "the vector index was just replaced")
        try:
            self._keeper.check_there(active)
            return active.index.search(vectors, owner=owner, limit=limit)
        except IndexDamagedError as error:
            self._keeper.report(active, error)
            raise
        except ConflictError:
            replaced_by = self._keeper.active  # a swap has closed the one that we had
            if replaced_by is None or replaced_by is active:
                raise
            return replaced_by.index.search(vectors, owner=owner, limit=limit)

    def vectors_of(self, numbers: Sequence[int]) -> KnownVectors:
        """The vectors of any segments, by their numbers in the ledger, in this order.

        Raises:
            EmbeddingError: the embedder is not loaded.
            StorageError: the ledger cannot be read.
        """
        loaded = self._loaded()
        return self._states.vectors_of(loaded.number, numbers, loaded.dimension)

    def codes_of(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """The codes of the tokens of any segments that have them, by their numbers in the ledger.

        Raises:
            EmbeddingError: the embedder is not loaded.
            StorageError: the ledger cannot be read.
        """
        coding = self._loaded().coding
        return {} if coding is None else self._states.codes.of(coding, numbers)

    def _loaded(self) -> LoadedEmbedder:
        if self.loaded is None:
            raise EmbeddingError("the embedder is not loaded", advice="Try again in a moment.")
        return self.loaded
