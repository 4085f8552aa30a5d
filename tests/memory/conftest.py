"""Fixtures of the memory tests."""

from __future__ import annotations

import pytest

from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder


@pytest.fixture(scope="session")
def bundled() -> SentenceTransformerEmbedder:
    """The bundled model, loaded once for all tests: importing torch takes seconds."""
    return SentenceTransformerEmbedder("bundled:multilingual-e5-small")
