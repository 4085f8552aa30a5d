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


class TokenMatches:
    """Of one question with the passages of a search, which may be read bit by bit."""

    def __init__(self, question: Sequence[TokenStates]) -> None:
        """Take the question: each of its texts counts the same."""
        self._texts = [each for each in question if len(each.states)]
        self._numbers: dict[int, None] = {}
        self._best: list[Vectors] = []

    def read(self, codes: Mapping[int, bytes]) -> None:
        """Read the codes of passages by their numbers, see `token_codes.encode`; none twice."""
        new = {number: each for number, each in codes.items() if number not in self._numbers}
        if not self._texts or not any(new.values()):
            return
        self._numbers |= dict.fromkeys(number for number, each in new.items() if each)
        # All texts at once: unpacking the codes costs more than comparing them.
        states = np.concatenate([each.states for each in self._texts])
        self._best.append(best_matches(states, [each for each in new.values() if each]))

    def by_number(self) -> dict[int, float]:
        """How near each passage comes to the question, token by token; about a cosine. A passage
        without any token is left out."""
        if not self._best:
            return {}
        ends = np.cumsum([len(each.states) for each in self._texts])
        of_texts = [
            _matches(each.information, rows)
            for each, rows in zip(
                self._texts, np.split(np.concatenate(self._best, axis=1), ends[:-1]), strict=True
            )
        ]
        return dict(zip(self._numbers, np.mean(of_texts, axis=0).tolist(), strict=True))


def _matches(information: Vectors, best: Vectors) -> Vectors:
    """Shape (passages,), of the tokens of one text: `best` is of shape (tokens, passages)."""
    weights = np.clip(information - TOKEN_MATCHES.expected, 0, TOKEN_MATCHES.most)
    weights = (weights + TOKEN_MATCHES.least) * (best.max(axis=1) - best.mean(axis=1))
    total = float(weights.sum())
    # Of a single passage, nothing stands out.
    weights = weights / total if total > 0 else np.full(len(best), 1 / len(best))
    matches: Vectors = weights @ best
    return matches
