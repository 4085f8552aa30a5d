"""Every number in long-term memory that was chosen by measuring, or still waits to be.

Each says on which data it was tuned. "Untuned" means a reasoned default that no benchmark has
confirmed: change it when one does, and say here which.
"""

from __future__ import annotations

SEGMENT_TOKENS = 256
"""Most tokens in a segment, by `tokens.estimate_tokens`: about 1,000 Latin letters or 340 Chinese
characters. Untuned; half of the bundled model's window of 512, so that an estimate that is wrong
by two still fits."""

EMBEDDED_TOKENS = 512
"""How much of a text reaches the embedder, by `tokens.estimate_tokens`. Untuned; segments are
shorter, so it bounds queries: the engine takes a minute for a quarter of a million characters."""

SMALLEST_PIECE = 0.25
"""A border counts only when the piece before it fills at least this share of a segment. Untuned."""

LEXICAL_WEIGHT = 0.3
DENSE_WEIGHT = 0.7
"""Shares of the min-max-normalised word score and vector score in a hit's relevance. Found on half
of LoCoMo with e5-small, before the first line of the project; not tuned since."""

CANDIDATES = 100
"""How many segments each index offers to the ranking, at least. Untuned."""

QUERY_TERMS = 256
"""Most different words of one query that are looked up. Untuned; a dialogue of 250 Chinese
characters still goes in whole."""

EMBEDDING_BATCH = 16
EMBEDDING_BATCH_TOKENS = 2048
"""Most segments, and most estimated tokens, embedded in one go. Untuned; on two cores a batch takes
about two seconds, and that is how long shutting down may wait for one."""
