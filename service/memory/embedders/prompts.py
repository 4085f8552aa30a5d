"""What all embedders do to texts before the model, and to vectors after it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from service.domain.conversation.token_estimates import prefix_within
from service.domain.errors import EmbeddingError
from service.memory.memory_tuning import EMBEDDED_TOKENS
from service.memory.protocol import Vectors

_HALF_CHARACTERS = re.compile(r"[\ud800-\udfff]")


def embeddable(text: str) -> str:
    """The text as engines can take it.

    Cut to `EMBEDDED_TOKENS`, since engines are slow on long texts; without NUL, which ends a text
    for an engine written in C; without halves of characters, which have no UTF-8.
    """
    text = text.lstrip()
    text = text[: prefix_within(text, EMBEDDED_TOKENS)]
    return _HALF_CHARACTERS.sub("\ufffd", text.replace("\0", " ")).strip() or " "


def unit_rows(vectors: npt.ArrayLike, texts: Sequence[str]) -> Vectors:
    """One row of length 1 for each text; for no texts, no rows.

    Raises:
        EmbeddingError: the model gave another number of rows, or a row that has no direction.
    """
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    try:
        rows = np.asarray(vectors, dtype=np.float32)
    except ValueError as error:
        raise EmbeddingError(
            "the model gave vectors of different lengths",
            advice="Choose a model that embeds whole texts.",
        ) from error
    if rows.ndim != 2 or rows.shape[0] != len(texts):
        raise EmbeddingError(
            f"the model gave vectors of shape {rows.shape} for {len(texts)} texts",
            advice="Choose a model that embeds whole texts.",
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise EmbeddingError(
            "the model gave a vector of zeros or of no numbers",
            advice="Choose another model; this one is damaged or does not suit these texts.",
        )
    unit: Vectors = rows / lengths
    return unit
