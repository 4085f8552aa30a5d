"""What the model embeds, and what is drawn because embedding it would take most of an hour.

Drawn vectors lie as those of a real model do: all around one direction, the mean of the model's
own vectors, in clusters. The shares of the three parts are those that give the cosines of e5-small:
about 0.75 between any two texts, 0.87 within a cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from service.memory.protocol import Embedder, Vectors

_COMMON, _OF_CLUSTER = 0.75, 0.12
_CLUSTERS = 1_000
_FROM_ITS_PASSAGE = 0.3
"""How far a drawn question lies from the passage it asks about."""


class MixedEmbedder:
    """An `Embedder` before the real one: passages by the model or drawn, as it is told.

    A question always costs what the model takes for it; where passages are drawn, what is given is
    drawn as well: near the passage that it asks about.
    """

    def __init__(self, model: Embedder, *, all_real: bool, samples: Sequence[str]) -> None:
        """Take the mean of the model's vectors of `samples` as the drawn ones' direction."""
        self._model = model
        self._all_real = all_real
        self.by_model = True
        """Whether the model embeds the next passages."""
        own = model.embed_passages(samples)
        mean = own.mean(axis=0)
        self._mean = mean / np.linalg.norm(mean)
        self._dimension = own.shape[1]
        self._centres = np.random.default_rng(0).standard_normal((_CLUSTERS, self._dimension))
        self._seen: dict[str, npt.NDArray[np.float32]] = {}
        self._questions: dict[str, Vectors] = {}

    @property
    def identity(self) -> str:
        """Never the model's own: some of these vectors are not."""
        return f"benchmark {self._model.identity}"

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        vectors = self._model.embed_queries(texts).copy()
        for row, text in enumerate(texts):
            vectors[row] = self.for_question(text, vectors[row : row + 1])[0]
        return vectors

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        if not self.by_model and not self._all_real:
            return self._drawn(texts)
        vectors = self._model.embed_passages(texts)
        if not self.by_model:
            self._seen.update(zip(texts, vectors, strict=True))
        return vectors

    def vectors_again(self, texts: Sequence[str]) -> Vectors:
        """The same vectors once more, of passages that `by_model` was not asked for."""
        if not self._all_real:
            return self._drawn(texts)
        return np.stack([self._seen[text] for text in texts])

    def expect(self, question: str, passage: str) -> None:
        """Say which passage a question asks about, before anything is timed."""
        if not self._all_real:
            noise = _rng(question).standard_normal(self._dimension) / np.sqrt(self._dimension)
            near = self._drawn([passage]) + _FROM_ITS_PASSAGE * noise
            self._questions[question] = (near / np.linalg.norm(near)).astype(np.float32)

    def for_question(self, question: str, real: Vectors) -> Vectors:
        """What stands for a question whose vector by the model is `real`, of shape (1, dimension).

        Where passages are drawn, a vector near the passage that it asks about.
        """
        return self._questions.get(question, real)

    def _drawn(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self._dimension))
        scale = 1 / np.sqrt(self._dimension)
        for row, text in zip(rows, texts, strict=True):
            rng = _rng(text)
            centre = self._centres[rng.integers(_CLUSTERS)] * scale
            own = rng.standard_normal(self._dimension) * scale
            row[:] = np.sqrt(_COMMON) * self._mean + np.sqrt(_OF_CLUSTER) * centre
            row += np.sqrt(1 - _COMMON - _OF_CLUSTER) * own
        unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit


def _rng(text: str) -> np.random.Generator:
    return np.random.default_rng(list(hashlib.sha256(text.encode()).digest()[:16]))
