"""A small model, and stores that know it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from service.models.catalog import KnownModel, Source
from service.models.weight_store import ModelStore

WEIGHTS = bytes(range(256)) * 12_000
"""Three megabytes that stand for a model."""


def entry(*sources: Source, weights: bytes = WEIGHTS) -> KnownModel:
    return KnownModel(
        name="tiny",
        description="",
        size=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
        licence="",
        languages="",
        context_tokens=128,
        parameters=1e8,
        sources=sources,
    )


def store(folder: Path, *sources: Source, free: int = 10**12) -> ModelStore:
    return ModelStore(folder / "models", catalog=[entry(*sources)], free_bytes=lambda _: free)


def left_over(folder: Path) -> list[str]:
    """What a pull left in the folder of partial files."""
    return [path.name for path in (folder / "models" / ".partial").rglob("*") if path.is_file()]
