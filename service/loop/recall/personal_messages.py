"""Which messages are about the person's own life, and which are requests that anybody could make.

"I moved to Leeds", "Where do I live?" and "Thanks" on one side; "Translate this", "Why is the sea
salty?" and "Write a poem" on the other, told by meaning: a logistic model over the vectors of
multilingual-e5-small, as questions are embedded. `personal_messages.json` holds what
``research.fit_personal`` has fitted to ``data/personal``: of the 80 of its part `test`,
79 are told rightly.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from service.domain.errors import ConfigurationError
from service.domain.history.state import RunLoopState
from service.routing.open_loop_vectors import EmbedQueries, embedded_text
from service.tuning import PERSONAL_CARRIES, PERSONAL_LOOKED_AT

FORM = 1
"""The form of the file."""


@lru_cache(maxsize=1)
def shipped() -> tuple[NDArray[np.float32], float]:
    """The weights, shape (dimension,), and the bias of the model that comes with the package.

    Raises:
        ConfigurationError: the file is of another form.
    """
    written = json.loads(
        resources.files(__package__ or __name__)
        .joinpath("personal_messages.json")
        .read_text("utf-8")
    )
    if written.get("form") != FORM:
        raise ConfigurationError(
            "The model that tells personal messages does not fit this version.",
            advice="Install the package again, or fit it in a checkout:"
            " `python -m research.fit_personal`.",
        )
    return np.array(written["weights"], dtype=np.float32), float(written["bias"])


async def is_personal(state: RunLoopState, *, embed: EmbedQueries) -> bool:
    """Whether what was said last is about the person's own life, or goes on with what was.

    Args:
        state: the run loop.
        embed: gives vectors; none where there is no embedder that the model knows, and then
            everything counts as personal.
    """
    by_person = (each.text for each in reversed(state.history) if each.role == "user" and each.text)
    said = list(islice(by_person, PERSONAL_LOOKED_AT))
    vectors = await embed([embedded_text(text, "user") for text in said]) if said else None
    if vectors is None:
        return True
    weights, bias = shipped()
    last, *before = (vectors @ weights + bias).tolist()
    return bool(last + PERSONAL_CARRIES * max(before, default=0.0) > 0)
