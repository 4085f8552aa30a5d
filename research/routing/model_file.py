"""The trained model as a file that people can read, and what it was trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from research.routing.feature_table import Table
from research.routing.replay import files
from service.routing.features.embedding_features import Openings
from service.routing.features.feature_set import CANDIDATE_FEATURES, CONTEXT_FEATURES
from service.routing.features.turn_features import EXCHANGE_FEATURES
from service.routing.routing_model import FORM, Scorer

EMBEDDER = "bundled:multilingual-e5-small"
_DIGITS = 4
"""Significant digits of vectors and of networks."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A model before it is written."""

    with_vectors: Scorer
    words_only: Scorer
    openings: Openings

    def at(self, temperatures: Mapping[str, float]) -> Trained:
        """The same, as sure as these temperatures make it."""
        return replace(
            self,
            with_vectors=replace(self.with_vectors, temperature=temperatures["with_vectors"]),
            words_only=replace(self.words_only, temperature=temperatures["words_only"]),
        )


def written(
    model: Trained, sources: Sequence[dict[str, Any]], curves: dict[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    """The model as JSON."""

    def scorer(name: str, of: Scorer) -> dict[str, Any]:
        return {
            "temperature": of.temperature,
            "calibration": curves.get(name, []),
            "networks": [each.written(_DIGITS) for each in of.networks],
        }

    body = {
        "about": "How likely a message belongs to a run loop: see service/routing.",
        "embedder": EMBEDDER,
        "trained_on": list(sources),
        "trained_with": how,
        "candidate_features": list(CANDIDATE_FEATURES),
        "context_features": list(CONTEXT_FEATURES),
        "exchange_features": list(EXCHANGE_FEATURES),
        "with_vectors": scorer("with_vectors", model.with_vectors),
        "words_only": scorer("words_only", model.words_only),
        "openings": model.openings.written(_DIGITS),
    }
    return {"form": FORM, "version": _hash(dumped(body).encode())[:12], **body}


def dumped(value: dict[str, Any]) -> str:
    """JSON in which each row of a matrix is one line.

    Raises:
        ValueError: a number is none (NaN), or infinite: the training has failed.
    """
    return _lines(value, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    indent = "  " * (depth + 1)
    if isinstance(value, dict):
        inner = (f"{indent}{json.dumps(key)}: {_lines(v, depth + 1)}" for key, v in value.items())
        return "{\n" + ",\n".join(inner) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        inner = (
            indent + (_lines(each, depth + 1) if isinstance(each, dict) and depth else _line(each))
            for each in value
        )
        return "[\n" + ",\n".join(inner) + "\n" + "  " * depth + "]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def source(folder: Path, weight: float, table: Table) -> dict[str, Any]:
    """What a set was, and a hash by which it is known again."""
    return {
        "set": folder.name,
        "weight": weight,
        "files": len(files(folder)),
        "messages": len(table.right),
        "new": int((table.right < 0).sum()),
        "sha256": _hash(b"".join(path.read_bytes() for path in files(folder))),
    }
