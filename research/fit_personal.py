"""Fits the model that tells messages about a person's own life, and measures it.

``python -m research.fit_personal data/personal service/loop/recall/personal_messages.json`` writes
the model; without the second argument it measures the one that comes with the package. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from research.care.fit_limits import regression
from service.config import load_settings
from service.loop.recall.personal_messages import FORM, shipped
from service.memory.embedders import create_embedder
from service.routing.open_loop_vectors import embedded_text

PARTS = ("train", "test")
_PRIOR = 0.0025
"""Of the prior that weights are 0; a tenth and thirty times of it change next to nothing."""
_DIGITS = 4


def read_part(path: Path) -> tuple[list[str], list[bool]]:
    """Messages, and whether each is personal, of a file of ``{"text", "personal"}``, one a line."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [row["text"] for row in rows], [row["personal"] for row in rows]


def main(folder: Path, written: Path | None) -> None:
    """Fit where a file to write is named; measure."""
    embedder = create_embedder(load_settings(), quick_start=False)
    if embedder is None:
        sys.exit("Search by meaning is off: set memory.embedder to bundled.")
    parts = {name: read_part(folder / f"{name}.jsonl") for name in PARTS}
    vectors = {
        name: np.asarray(embedder.embed_queries([embedded_text(each, "user") for each in texts]))
        for name, (texts, _) in parts.items()
    }
    weights, bias = shipped() if written is None else (np.zeros(0), 0.0)
    if written is not None:
        labels = np.array(parts["train"][1], dtype=float)
        table = vectors["train"].astype(np.float64)
        mean = table.mean(axis=0)
        fitted = regression(
            table - mean, labels, np.ones(len(table)), np.full(table.shape[1], _PRIOR)
        )
        weights = np.round(fitted[:-1], _DIGITS)
        bias = round(float(fitted[-1] - mean @ weights), _DIGITS)
        model = {"form": FORM, "weights": weights.tolist(), "bias": bias}
        written.write_text(json.dumps(model) + "\n", "utf-8")
    print(
        json.dumps(
            {name: figures(*parts[name], vectors[name] @ weights + bias) for name in PARTS},
            indent=1,
            ensure_ascii=False,
        )
    )


def figures(texts: list[str], personal: list[bool], logits: Any) -> dict[str, Any]:
    """The share that is told rightly, and what is not."""
    predicted = np.asarray(logits) > 0
    wrong = [
        text
        for text, is_predicted, label in zip(texts, predicted, personal, strict=True)
        if bool(is_predicted) != label
    ]
    return {"messages": len(texts), "right": len(texts) - len(wrong), "wrong": wrong}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
