"""An embedder whose tokens are words: loads at once, and gives states when it is told to."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from service.memory.ledger.terms import terms
from service.memory.protocol import Embedded, TokenStates, Vectors
from tests.support.memory.journal_file import rows
from tests.support.memory.remembering import WordEmbedder


class WordTokenEmbedder(WordEmbedder):
    """Each word has a direction of its own, and nothing but the same word is near it."""

    token_identity = "words as tokens"

    def __init__(self, *, ready: bool = True) -> None:
        super().__init__()
        self.ready = threading.Event()
        """Set: states are given from then on."""
        if ready:
            self.ready.set()
        self.never = False
        """Whether no states will ever be given."""
        self.asked_by_token: list[str] = []

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        self.asked_by_token += texts
        return Embedded(self.embed_queries(texts), self._tokens(texts))

    def embed_passages_by_token(self, texts: Sequence[str]) -> Embedded:
        return Embedded(self.embed_passages(texts), self._tokens(texts))

    def wait_for_tokens(self, seconds: float) -> bool | None:
        return None if self.never else self.ready.wait(min(seconds, 0.05))

    def _tokens(self, texts: Sequence[str]) -> list[TokenStates] | None:
        if not self.ready.is_set():
            return None
        return [_states([*terms(text)]) for text in texts]


def _states(words: Sequence[str]) -> TokenStates:
    rows = [
        np.random.default_rng(zlib.crc32(word.encode())).standard_normal(1024) for word in words
    ]
    states: Vectors = np.array(rows, dtype=np.float32).reshape(len(words), 1024)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    return TokenStates(states, np.full(len(words), 9.0, dtype=np.float32))


def coded(folder: Path) -> dict[str, bytes]:
    """The codes in a data folder, by the text of their segment; codes of no segment by number."""
    found = rows(
        folder / "memory.sqlite3",
        "SELECT coalesce(s.text, c.id), c.codes FROM token_codes c"
        " LEFT JOIN segments s ON s.id = c.id & ((1 << 40) - 1)",
    )
    return {str(text): codes for text, codes in found}
