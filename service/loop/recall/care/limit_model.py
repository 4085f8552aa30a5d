"""Which sentences tell a limit of the person's, and to which messages a limit matters: by vectors.

Two logistic models over the vectors of multilingual-e5-small, as questions are embedded. The first
tells a sentence with which a person limits what is good for them or theirs, or takes that back,
from all else that is said: a point in the space of sentences. The second holds such a sentence
against a message: a bilinear form, as what a limit says (shellfish) and what a message asks for
(a salad with shrimps) lie near each other in some directions only; and some messages ask for what
no limit can touch. Each side is counted from the mean of its kind in its script, since vectors of
one script lie nearer together than those of one topic.

`limit_model.json` holds what `research.care.fit_limits` has fitted to ``data/care``; what it comes
to on sentences and pairs that were written afterwards, and not looked at before:

- of 60 sentences that tell a limit all are found (recall 1.0), with a precision of 0.91;
- of 86 pairs of a limit and a message of its own topic 98 % are told, of 80 with a message of its
  field at large 90 %; of 840 with messages of another field 41 %, of 624 with others 3 %.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.domain.errors import ConfigurationError
from service.domain.text import script_of
from service.memory.embedders.bundled_e5 import QUERY_PROMPT
from service.memory.protocol import Vectors

FORM = 1
"""The form of the file."""

Array = NDArray[np.float32]

_PROMPT = f" query={QUERY_PROMPT!r} "


@dataclass(frozen=True, slots=True)
class Centres:
    """The means of vectors, shape (dimension,) each, of texts of a kind."""

    han: Array
    other: Array

    def directions(self, texts: Sequence[str], vectors: Vectors) -> Array:
        """Where vectors lie as seen from the mean of their script: rows of length 1."""
        away = vectors - np.stack(
            [self.han if script_of(text) == "han" else self.other for text in texts]
        )
        return np.asarray(away / np.linalg.norm(away, axis=1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class CareModel:
    """Both models, fitted. Dimension d, of which p directions are looked at apart, b of them in
    pairs."""

    embedder: str
    """Whose vectors it knows: a part of the embedder's identity."""
    limit: Array
    """Shape (d,)."""
    limit_bias: float
    limits_from: float
    """Of the first model's logit: from here on a sentence tells a limit."""
    said: Centres
    """Of sentences that tell a limit."""
    asked: Centres
    """Of messages."""
    axes: Array
    """Shape (p, d): the directions."""
    near: float
    """What a cosine between both sides counts."""
    asks: Array
    """Shape (p,): of the message alone."""
    along: Array
    """Shape (p,): of the product of both sides."""
    pairs: Array
    """Shape (b, b): of a direction of the limit with another of the message."""
    bias: float
    matters_from: float
    """Of the second model's logit: from here on a limit matters."""

    def limit_logits(self, vectors: Vectors) -> Array:
        """How surely each text tells a limit, shape (texts,)."""
        return np.asarray(vectors @ self.limit + self.limit_bias, dtype=np.float32)

    def importance_logits(
        self, said: Sequence[str], said_vectors: Vectors, asked: str, asked_vector: Vectors
    ) -> Array:
        """How surely each limit matters to a message, shape (limits,).

        Args:
            said: what tells the limits; their scripts count.
            said_vectors: one row for each.
            asked: the message.
            asked_vector: its vector, shape (d,).
        """
        ours = self.said.directions(said, said_vectors)
        theirs = self.asked.directions([asked], asked_vector[None])[0]
        table = pair_table(ours, np.tile(theirs, (len(ours), 1)), self.axes, len(self.pairs))
        weights = np.concatenate([[self.near], self.asks, self.along, self.pairs.ravel()])
        return np.asarray(table @ weights + self.bias, dtype=np.float32)


def pair_table(ours: Array, theirs: Array, axes: Array, paired: int) -> Array:
    """What the second model sees of limits and messages, one of each in a row.

    Args:
        ours, theirs: directions, shape (rows, d).
        axes: shape (p, d).
        paired: how many of the axes, the first ones, are paired.

    Returns:
        Shape (rows, 1 + 2 p + paired²).
    """
    near = (ours * theirs).sum(axis=1, keepdims=True)
    mine, its = ours @ axes.T, theirs @ axes.T
    pairs = mine[:, :paired, None] * its[:, None, :paired]
    return np.concatenate([near, its, mine * its, pairs.reshape(len(ours), -1)], axis=1)


@lru_cache(maxsize=1)
def shipped() -> CareModel:
    """The model that comes with the package, read once.

    Raises:
        ConfigurationError: the file is of another form.
    """
    text = resources.files(__package__ or __name__).joinpath("limit_model.json").read_text("utf-8")
    return read_model(json.loads(text))


def is_known(identity: str | None) -> bool:
    """Whether the model knows an embedder's vectors, by the embedder's identity."""
    return identity is not None and f" {shipped().embedder} " in identity and _PROMPT in identity


def read_model(written: Mapping[str, Any]) -> CareModel:
    """A model from its JSON.

    Raises:
        ConfigurationError: it is of another form.
    """
    if written.get("form") != FORM:
        raise ConfigurationError(
            "The model that tells a person's limits does not fit this version.",
            advice="Install the package again, or fit it in a checkout:"
            " `python -m research.care.fit_limits`.",
        )

    def array(name: str) -> Array:
        return np.array(written[name], dtype=np.float32)

    def centres(name: str) -> Centres:
        means = written[name]
        return Centres(*(np.array(means[each], dtype=np.float32) for each in ("han", "other")))

    return CareModel(
        embedder=written["embedder"],
        limit=array("limit"),
        limit_bias=written["limit_bias"],
        limits_from=written["limits_from"],
        said=centres("said"),
        asked=centres("asked"),
        axes=array("axes"),
        near=written["near"],
        asks=array("asks"),
        along=array("along"),
        pairs=array("pairs"),
        bias=written["bias"],
        matters_from=written["matters_from"],
    )
