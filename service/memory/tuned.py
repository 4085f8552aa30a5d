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

HNSW = {"ef_search": 400, "ef_construction": 200, "max_neighbors": 32}
"""Parameters of Chroma's graph. Measured on 200 near-identical texts and on 20,000 random vectors
in 200 clusters: with Chroma's own (100, 100, 16) the best match is missed in 4 of 100 queries on
the former, with these in none; the hundred nearest are found to 100 rather than 98 of 100 on the
latter. A query takes 4 ms rather than 2 and adding 2 ms a vector rather than 1, either far below
what embedding takes."""

QUERY_TERMS = 256
"""Most different words of one query that are looked up. Untuned; a dialogue of 250 Chinese
characters still goes in whole."""

EMBEDDING_BATCH = 16
EMBEDDING_BATCH_TOKENS = 2048
"""Most segments, and most estimated tokens, embedded in one go. Untuned; on two cores a batch takes
about two seconds, and that is how long shutting down may wait for one."""
