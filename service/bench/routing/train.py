"""Train the router's model: `python -m service.bench.routing.train SET... --out model.json`.

A SET is a folder of streams (`service.bench.routing.replay` has the form), optionally with its
weight: `irc-train=1.5`. What a model is worth is measured on files that its forests were not
trained on, third by third, which also sets the temperature; on whole sets left out (`--check`); and
on sets named by `--test`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from service.agent.routing.features import CANDIDATE_FEATURES, CONTEXT_FEATURES
from service.agent.routing.model import FORM, Scorer
from service.agent.routing.nearness import NEARNESS_FEATURES
from service.agent.routing.projection import Projection
from service.bench.routing.boosting import Boosting, boosted
from service.bench.routing.crossing import Crossed, Scores, curves, figures
from service.bench.routing.metrics import measured
from service.bench.routing.projecting import Projecting, trained_projection
from service.bench.routing.replay import embedded, files, replay
from service.bench.routing.resting import rested
from service.bench.routing.table import (
    Integers,
    Table,
    joined,
    projected,
    tabulated,
    without_projection,
)

EMBEDDER = "bundled:multilingual-e5-small"
FOLDS = 3
_DIGITS = 3
"""Significant digits of a projection."""
_WITHOUT_PROJECTION = 0.1
"""Share of the messages that the forests see without the projection."""
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

    def at(self, temperatures: Mapping[str, float]) -> Trained:
        """The same, as sure as these temperatures make it."""
        return replace(
            self,
            with_vectors=replace(self.with_vectors, temperature=temperatures["with_vectors"]),
            words_only=replace(self.words_only, temperature=temperatures["words_only"]),
        )


def cross_projected(tables: Sequence[Table], how: Projecting) -> list[Table]:
    """The tables with what a projection says of files that it was not trained on.

    Of its own it is too sure.
    """
    parts: list[list[Table]] = [[] for _ in tables]
    folds = [thirds(table) for table in tables]
    for fold in range(FOLDS):
        others = [table.part(of != fold) for table, of in zip(tables, folds, strict=True)]
        projection = trained_projection(others, how)
        for own, table, of in zip(parts, tables, folds, strict=True):
            own.append(projected(table.part(of == fold), projection))
    return [joined(own) for own in parts]


def thirds(table: Table) -> Integers:
    """Which third of the files a message is in, shape (M,)."""
    return np.asarray(np.unique(table.file, return_inverse=True)[1] % FOLDS)


def scorers(seen: Sequence[Table], how: Boosting) -> dict[str, Scorer]:
    """Both kinds of forests, of tables that have been projected."""
    whole = joined(seen)
    hidden = np.random.default_rng(how.seed).random(len(whole.right)) < _WITHOUT_PROJECTION
    return {
        "with_vectors": Scorer(*boosted(without_projection(whole, hidden), how), temperature=1.0),
        "words_only": Scorer(*boosted(whole, how, without=_FROM_VECTORS), temperature=1.0),
    }


def trained(
    tables: Sequence[Table], boosting: Boosting, projecting: Projecting, seen: Sequence[Table] = ()
) -> Trained:
    """Train on several sets; `seen` are the same tables, cross-projected, if that was done."""
    found = scorers(seen or cross_projected(tables, projecting), boosting)
    return Trained(
        with_vectors=found["with_vectors"],
        words_only=found["words_only"],
        projection=trained_projection(tables, projecting),
    )


def results(model: Trained, table: Table) -> dict[str, Any]:
    """The figures with vectors and without."""
    seen = projected(table, model.projection)
    return {
        "with_vectors": measured(
            Scores.of(model.with_vectors, seen).decisions(model.with_vectors.temperature)
        ),
        "words_only": measured(
            Scores.of(model.words_only, seen).decisions(model.words_only.temperature)
        ),
    }


def cross_checked(
    seen: dict[str, Table], boosting: Boosting
) -> tuple[dict[str, dict[str, Crossed]], dict[str, float]]:
    """Train the forests on two thirds of the files of all sets and judge the others, three times.

    Returns:
        For each kind of scorer and each set what was found, and for each kind the temperature by
        which the true places become likeliest, each set weighing as in training.
    """
    found: dict[str, dict[str, Crossed]] = {"with_vectors": {}, "words_only": {}}
    for fold in range(FOLDS):
        rest = [table.part(thirds(table) != fold) for table in seen.values()]
        for kind, scorer in scorers(rest, boosting).items():
            for name, table in seen.items():
                held = table.part((thirds(table) == fold) & ~table.made_up)
                found[kind].setdefault(name, Crossed(scores=[])).scores.append(
                    Scores.of(scorer, held)
                )
                _tell(f"{kind} {name} {fold}", measured(found[kind][name].scores[-1].decisions()))
    return found, {kind: _temperature(list(sets.values())) for kind, sets in found.items()}


def _temperature(sets: Sequence[Crossed]) -> float:
    grid = np.geomspace(0.6, 1.8, 56)
    losses = [sum(each.weight * each.loss(float(at)) for each in sets) for at in grid]
    return round(float(grid[int(np.argmin(losses))]), 3)


def left_out(
    tables: dict[str, Table], boosting: Boosting, projecting: Projecting
) -> dict[str, dict[str, Any]]:
    """Results on each set when nothing of it was trained on."""
    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        others = [each for other, each in tables.items() if other != name]
        model = trained(others, boosting, projecting)
        found[name] = results(model, table.part(~table.made_up))
        _tell(f"{name}, left out", found[name])
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

    body = {
        "about": "How likely a message belongs to a run loop: see service/agent/routing/model.py.",
        "embedder": EMBEDDER,
        "trained_on": list(sources),
        "trained_with": how,
        "candidate_features": list(CANDIDATE_FEATURES),
        "context_features": list(CONTEXT_FEATURES),
        "with_vectors": scorer("with_vectors", model.with_vectors),
        "words_only": scorer("words_only", model.words_only),
        "projection": model.projection.written(_DIGITS),
    }
    return {"form": FORM, "version": _hash(dumped(body).encode())[:12], **body}


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
@click.option("--check", is_flag=True, help="Measure on each set left out whole as well.")
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
    import torch

    from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

    # With one thread sums are made in one order, and the same command writes the same file.
    torch.set_num_threads(1)
    weights = {Path(each.rpartition("=")[0] or each): _weight(each) for each in sets}
    folders = [*weights, *map(Path, tests)]
    embedder = SentenceTransformerEmbedder(EMBEDDER)
    known = embedded(folders, embedder.embed_queries, vectors)
    asked = {folder: list(replay(folder, known)) for folder in folders}
    tables = {folder: tabulated(asked[folder]) for folder in folders}
    training = {
        folder.name: joined(
            [tables[folder], tabulated(rested(asked[folder], seed), made_up=True)]
        ).weighing(weight)
        for folder, weight in weights.items()
    }
    boosting = Boosting(rounds=rounds, seed=seed)
    projecting = Projecting(epochs=epochs, seed=seed)
    how = {
        "command": _command(weights, rounds, epochs, seed),
        "boosting": asdict(boosting),
        "projecting": asdict(projecting),
    }
    seen = cross_projected(list(training.values()), projecting)
    crossed, temperatures = cross_checked(dict(zip(training, seen, strict=True)), boosting)
    model = trained(list(training.values()), boosting, projecting, seen).at(temperatures)
    report: dict[str, Any] = {"held_out_files": figures(crossed, temperatures)}
    report["tests"] = {Path(each).name: results(model, tables[Path(each)]) for each in tests}
    if check:
        report["left_out"] = left_out(training, boosting, projecting)
    if out is not None:
        sources = [_source(folder, weight, tables[folder]) for folder, weight in weights.items()]
        out.write_text(dumped(written(model, sources, curves(crossed, temperatures), how)), "utf-8")
    print(json.dumps(report, indent=2))


def _command(weights: Mapping[Path, float], rounds: int, epochs: int, seed: int) -> str:
    sets = " ".join(f"{folder.name}={weight:g}" for folder, weight in weights.items())
    return (
        f"python -m service.bench.routing.train {sets} --rounds {rounds} --epochs {epochs}"
        f" --seed {seed}"
    )


def _weight(named: str) -> float:
    return float(named.rpartition("=")[2]) if "=" in named else 1.0


if __name__ == "__main__":
    main()
