"""An embedder that embeds no question twice: routing, recall and search ask the same ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from service.memory.embedders.prompts import embeddable
from service.memory.protocol import Embedder, Vectors

_KEPT = 4096


class QueryCache:
    """Keeps the vectors of the last questions. Satisfies `Embedder`.

    Two threads that ask for the same new text at the same moment may both have it embedded.
    """

    def __init__(self, embedder: Embedder, *, kept: int = _KEPT) -> None:
        """Put a cache before an embedder.

        Args:
            embedder: who embeds.
            kept: how many vectors are kept; those that were asked for last.
        """
        self._embedder = embedder
        self._size = kept
        self._vectors: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()
        self._changing = threading.Lock()

    @property
    def identity(self) -> str:
        """The embedder's own."""
        return self._embedder.identity

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        texts = [embeddable(text) for text in texts]  # all that matters of a text, and short
        with self._changing:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if not texts:
            return self._embedder.embed_queries(texts)
        if missing:
            vectors.update(zip(missing, self._embedder.embed_queries(missing), strict=True))
        self._keep(vectors)
        return np.stack([vectors[text] for text in texts])

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`. Nothing is kept: a passage is embedded once."""
        return self._embedder.embed_passages(texts)

    def clear(self) -> None:
        """Keep no question."""
        with self._changing:
            self._vectors.clear()

    def _keep(self, vectors: dict[str, npt.NDArray[np.float32]]) -> None:
        with self._changing:
            for text, vector in vectors.items():
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
