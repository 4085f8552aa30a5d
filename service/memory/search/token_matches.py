"""How well the tokens of passages match those of a question: late interaction.

Each token of a question looks for the token of a passage that is nearest to it (ColBERT's MaxSim:
Khattab and Zaharia 2020). A token says the more the less it was to be expected, and the more its
best match among the passages of a search stands out from what it finds in any of them: "the" and
"when" find themselves everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from service.memory.memory_tuning import TOKEN_MATCHES
from service.memory.protocol import TokenStates, Vectors
from service.memory.vectors.token_codes import best_matches


def token_matches(question: Sequence[TokenStates], codes: Mapping[int, bytes]) -> dict[int, float]:
    """How near passages come to a question, token by token; about a cosine. Pure.

    Args:
        question: of each of its texts; each text counts the same.
        codes: of the passages of a search, by their numbers, see `token_codes.encode`.

    Returns:
        By number; a passage without any token is left out.
    """
    passages = {number: each for number, each in codes.items() if each}
    texts = [each for each in question if len(each.states)]
    if not passages or not texts:
        return {}
    # All texts at once: unpacking the codes costs more than comparing them.
    best = best_matches(np.concatenate([each.states for each in texts]), [*passages.values()])
    ends = np.cumsum([len(each.states) for each in texts])
    of_texts = [
        _matches(each.information, rows)
        for each, rows in zip(texts, np.split(best, ends[:-1]), strict=True)
    ]
    return dict(zip(passages, np.mean(of_texts, axis=0).tolist(), strict=True))


def _matches(information: Vectors, best: Vectors) -> Vectors:
    """Shape (passages,), of the tokens of one text: `best` is of shape (tokens, passages)."""
    weights = np.clip(information - TOKEN_MATCHES.expected, 0, TOKEN_MATCHES.most)
    weights = (weights + TOKEN_MATCHES.least) * (best.max(axis=1) - best.mean(axis=1))
    total = float(weights.sum())
    # Of a single passage, nothing stands out.
    weights = weights / total if total > 0 else np.full(len(best), 1 / len(best))
    matches: Vectors = weights @ best
    return matches
