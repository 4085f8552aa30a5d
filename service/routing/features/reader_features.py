"""What the reader says of a message, as features for the forests and the network that judge last.

The reader is a `Network` that sees vectors. (`text_reading.py` is something else: it takes texts
apart.)
"""

from __future__ import annotations

import numpy as np

from service.routing.features.embedding_features import Matrix, lead
from service.routing.features.turn_features import Exchanges
from service.routing.features.turn_network import Network

READER_FEATURES = ("reader_margin", "reader_lead", "reader_share")
"""Of a candidate: its score above that of *new*, above the best of the others, its probability."""
READER_CONTEXT = ("reader_new_margin", "reader_gap", "reader_new_share")
"""The score of *new* above the best candidate's, the best's above the next, the probability."""
_ALONE = 8.0
"""By how much a candidate leads that has no other beside it."""


def read_by(
    network: Network, candidates: Matrix, context: Matrix, exchanges: Exchanges
) -> tuple[Matrix, Matrix]:
    """What a network says.

    Returns:
        Shapes (candidates, len(READER_FEATURES)) and (len(READER_CONTEXT),).
    """
    join, new = network.scores(candidates, context, exchanges)
    scores = np.append(join, new)
    raised = np.exp(scores - scores.max())
    shares = raised / raised.sum()
    ahead = lead(join) if len(join) > 1 else np.array([_ALONE])
    of_each = np.stack([join - new, ahead, shares[:-1]], axis=1)
    return of_each, np.array([new - join.max(), ahead.max(), shares[-1]])
