"""Train the router's model: `python -m service.bench.routing.train SET... --out model.json`.

A SET is a folder of streams (`service.bench.routing.replay` has the form), optionally with its
weight: `irc-train=1.5`. What a model is worth is measured on files that it was not trained on: a
third of each set's, and whole sets left out (`--check`), and sets named by `--test`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from service.agent.routing.features import CANDIDATE_FEATURES, CONTEXT_FEATURES
from service.agent.routing.model import FORM, Scorer
from service.agent.routing.nearness import NEARNESS_FEATURES
from service.agent.routing.projection import Projection
from service.bench.routing.boosting import Boosting, boosted, softmax
from service.bench.routing.metrics import NEW, Decision, calibration, measured
from service.bench.routing.projecting import Projecting, trained_projection
from service.bench.routing.replay import embedded, files, replay
from service.bench.routing.table import Table, joined, projected, tabulated

EMBEDDER = "bundled:multilingual-e5-small"
FOLDS = 3
_FROM_VECTORS = (
    *NEARNESS_FEATURES,
    "opens",
    *(name for name in CONTEXT_FEATURES if name.split("_", 1)[-1] in NEARNESS_FEATURES),
)


@dataclass(frozen=True, slots=True)
class Trained:
    """A model before it is written."""

    with_vectors: Scorer
    words_only: Scorer
    projection: Projection


def trained(tables: Sequence[Table], boosting: Boosting, projecting: Projecting) -> Trained:
    """Train on several sets.

    What the forests see of the projection is what it says of files that it was not trained on:
    of its own it is too sure.
    """
    parts: list[list[Table]] = [[] for _ in tables]
    folds = [np.unique(table.file, return_inverse=True)[1] % FOLDS for table in tables]
    for fold in range(FOLDS):
        others = [table.part(of != fold) for table, of in zip(tables, folds, strict=True)]
        projection = trained_projection(others, projecting)
        for own, table, of in zip(parts, tables, folds, strict=True):
            own.append(projected(table.part(of == fold), projection))
    whole = joined([each for own in parts for each in own])
    return Trained(
        with_vectors=Scorer(*boosted(whole, boosting), temperature=1.0),
        words_only=Scorer(*boosted(whole, boosting, without=_FROM_VECTORS), temperature=1.0),
        projection=trained_projection(tables, projecting),
    )


def decisions(scorer: Scorer, table: Table) -> list[Decision]:
    """What a model decides for each message."""
    join, new = softmax(
        scorer.join.scores(table.candidates.astype(np.float64)) / scorer.temperature,
        scorer.new.scores(table.context.astype(np.float64)) / scorer.temperature,
        table.owner,
    )
    bounds = [*table.starts, len(table.owner)]
    found: list[Decision] = []
    for message, right in enumerate(table.right):
        own = join[bounds[message] : bounds[message + 1]]
        best = int(np.argmax(own)) if len(own) else NEW
        if best == NEW or new[message] >= own[best]:
            found.append(Decision(NEW, int(right), float(new[message])))
        else:
            found.append(Decision(best, int(right), float(own[best])))
    return found


def results(model: Trained, table: Table) -> dict[str, Any]:
    """The figures with vectors and without."""
    seen = projected(table, model.projection)
    return {
        "with_vectors": measured(decisions(model.with_vectors, seen)),
        "words_only": measured(decisions(model.words_only, seen)),
    }


def checked(
    tables: dict[str, Table], boosting: Boosting, projecting: Projecting
) -> dict[str, dict[str, Any]]:
    """Results on held-out files, and on each set when it is left out whole."""
    found: dict[str, dict[str, Any]] = {"held_out_files": {}, "left_out": {}}
    rest = [table.part(table.file % FOLDS != 0) for table in tables.values()]
    model = trained(rest, boosting, projecting)
    for name, table in tables.items():
        found["held_out_files"][name] = results(model, table.part(table.file % FOLDS == 0))
        _tell(f"held-out files of {name}", found["held_out_files"][name])
    for name, table in tables.items():
        others = [each for other, each in tables.items() if other != name]
        if others:
            found["left_out"][name] = results(trained(others, boosting, projecting), table)
            _tell(f"{name}, left out", found["left_out"][name])
    return found


def written(
    model: Trained, sources: Sequence[dict[str, Any]], curves: dict[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    """The model as JSON."""

    def scorer(name: str, of: Scorer) -> dict[str, Any]:
        return {
            "temperature": of.temperature,
            "calibration": curves.get(name, []),
            "join": of.join.written(),
            "new": of.new.written(),
        }

    return {
        "form": FORM,
        "version": _hash(json.dumps([list(sources), how], sort_keys=True).encode())[:12],
        "about": "How likely a message belongs to a run loop: see service/agent/routing/model.py.",
        "embedder": EMBEDDER,
        "trained_on": list(sources),
        "trained_with": how,
        "candidate_features": list(CANDIDATE_FEATURES),
        "context_features": list(CONTEXT_FEATURES),
        "with_vectors": scorer("with_vectors", model.with_vectors),
        "words_only": scorer("words_only", model.words_only),
        "projection": model.projection.written(),
    }


def dumped(value: dict[str, Any]) -> str:
    """JSON in which each tree and each row of a matrix is one line."""
    return _lines(value, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    indent = "  " * (depth + 1)
    if isinstance(value, dict):
        inner = (f"{indent}{json.dumps(key)}: {_lines(v, depth + 1)}" for key, v in value.items())
        return "{\n" + ",\n".join(inner) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        inner = (f"{indent}{json.dumps(each, ensure_ascii=False)}" for each in value)
        return "[\n" + ",\n".join(inner) + "\n" + "  " * depth + "]"
    return json.dumps(value, ensure_ascii=False)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tell(what: str, figures: dict[str, Any]) -> None:
    print(what, json.dumps(figures), file=sys.stderr, flush=True)


def _source(folder: Path, weight: float, table: Table) -> dict[str, Any]:
    return {
        "set": folder.name,
        "weight": weight,
        "files": len(files(folder)),
        "messages": len(table.right),
        "new": int((table.right < 0).sum()),
        "sha256": _hash(b"".join(path.read_bytes() for path in files(folder))),
    }


@click.command()
@click.argument("sets", nargs=-1, required=True)
@click.option("--test", "tests", multiple=True, help="A set to measure on only.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write to.")
@click.option("--vectors", type=click.Path(dir_okay=False, path_type=Path), help="A cache (.npz).")
@click.option("--check", is_flag=True, help="Measure on held-out files and left-out sets as well.")
@click.option("--rounds", default=Boosting.rounds, show_default=True, help="Trees of a forest.")
@click.option("--epochs", default=Projecting.epochs, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(
    sets: tuple[str, ...],
    tests: tuple[str, ...],
    out: Path | None,
    vectors: Path | None,
    check: bool,
    rounds: int,
    epochs: int,
    seed: int,
) -> None:
    """Train the router's model on SETS, folders with an optional weight: DIR or DIR=1.5."""
    from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

    weights = {Path(each.rpartition("=")[0] or each): _weight(each) for each in sets}
    folders = [*weights, *map(Path, tests)]
    embedder = SentenceTransformerEmbedder(EMBEDDER)
    known = embedded(folders, embedder.embed_queries, vectors)
    tables = {folder: tabulated(list(replay(folder, known))) for folder in folders}
    training = {folder.name: tables[folder].weighing(weight) for folder, weight in weights.items()}
    boosting = Boosting(rounds=rounds, seed=seed)
    projecting = Projecting(epochs=epochs, seed=seed)
    how = {"boosting": asdict(boosting), "projecting": asdict(projecting)}
    report: dict[str, Any] = checked(training, boosting, projecting) if check else {}
    model = trained(list(training.values()), boosting, projecting)
    report["tests"] = {Path(each).name: results(model, tables[Path(each)]) for each in tests}
    if out is not None:
        sources = [_source(folder, weight, tables[folder]) for folder, weight in weights.items()]
        out.write_text(dumped(written(model, sources, _curves(model, tables, tests), how)), "utf-8")
    print(json.dumps(report, indent=2))


def _weight(named: str) -> float:
    return float(named.rpartition("=")[2]) if "=" in named else 1.0


def _curves(
    model: Trained, tables: dict[Path, Table], tests: Sequence[str]
) -> dict[str, list[dict[str, float]]]:
    """Calibration on the sets that were only measured on; empty without one."""
    seen = [projected(tables[Path(each)], model.projection) for each in tests]
    if not seen:
        return {}
    return {
        name: calibration([each for table in seen for each in decisions(scorer, table)])
        for name, scorer in (
            ("with_vectors", model.with_vectors),
            ("words_only", model.words_only),
        )
    }


if __name__ == "__main__":
    main()
