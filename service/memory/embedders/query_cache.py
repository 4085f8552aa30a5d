"""An embedder that embeds no question twice: routing, recall and search ask the same ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from service.memory.embedders.prompts import embeddable
from service.memory.protocol import Embedded, Embedder, TokenStates, Vectors, by_token

_KEPT = 4096
_TOKENS_KEPT = 64
"""Of so few questions: states take a hundred times as much as a vector, and who asks again does it
at once."""

_T = TypeVar("_T")


class QueryCache:
    """Keeps the vectors of the last questions, and states of tokens. Satisfies `TokenEmbedder`.

    Two threads that ask for the same new text at the same moment may both have it embedded.
    """

    def __init__(self, embedder: Embedder, *, kept: int = _KEPT) -> None:
        """Put a cache before an embedder.

        Args:
            embedder: who embeds.
            kept: how many vectors are kept; those that were asked for last.
        """
        self._embedder = embedder
        self._by_token = by_token(embedder)
        self._size = kept
        self._vectors: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()
        self._tokens: OrderedDict[str, TokenStates] = OrderedDict()
        self._changing = threading.Lock()

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
        return self._look_up(texts, tokens=False).vectors

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_queries_by_token`."""
        return self._look_up(texts, tokens=True)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`. Nothing is kept: a passage is embedded once."""
        return self._embedder.embed_passages(texts)

    def embed_passages_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_passages_by_token`. Nothing is kept."""
        if self._by_token is None:
            return Embedded(self._embedder.embed_passages(texts), None)
        return self._by_token.embed_passages_by_token(texts)

    def wait_for_tokens(self, seconds: float) -> bool | None:
        """See `TokenEmbedder.wait_for_tokens`."""
        return self._by_token.wait_for_tokens(seconds) if self._by_token else None

    def clear(self) -> None:
        """Keep no question."""
        with self._changing:
            self._vectors.clear()
            self._tokens.clear()

    def _look_up(self, texts: Sequence[str], *, tokens: bool) -> Embedded:
        texts = [embeddable(text) for text in texts]  # all that matters of a text, and short
        if not texts:
            return Embedded(self._embedder.embed_queries(texts), None)
        with self._changing:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
            states = {text: self._tokens[text] for text in texts if text in self._tokens}
        # A vector alone will do as long as there is no more to be had.
        both = tokens and self.wait_for_tokens(0) is True
        done = states.keys() & vectors.keys() if both else vectors.keys()
        missing = [text for text in dict.fromkeys(texts) if text not in done]
        if missing:
            new = self._embed(missing)
            vectors.update(zip(missing, new.vectors, strict=True))
            states.update(zip(missing, new.tokens or (), strict=False))
        self._keep(vectors, states)
        of_texts = [states[text] for text in texts if text in states]
        return Embedded(
            np.stack([vectors[text] for text in texts]),
            of_texts if tokens and len(of_texts) == len(texts) else None,
        )

    def _embed(self, texts: Sequence[str]) -> Embedded:
        if self._by_token is None:
            return Embedded(self._embedder.embed_queries(texts), None)
        return self._by_token.embed_queries_by_token(texts)  # who asks next may want the states

    def _keep(
        self,
        vectors: Mapping[str, npt.NDArray[np.float32]],
        states: Mapping[str, TokenStates],
    ) -> None:
        with self._changing:
            _put(self._vectors, vectors, most=self._size)
            _put(self._tokens, states, most=min(_TOKENS_KEPT, self._size))


def _put(kept: OrderedDict[str, _T], new: Mapping[str, _T], *, most: int) -> None:
    for text, each in new.items():
        kept[text] = each
        kept.move_to_end(text)
    while len(kept) > most:
        kept.popitem(last=False)
