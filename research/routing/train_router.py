"""Train the router's model: `python -m research.routing.train_router SET... --out model.json`.

A SET is a folder of streams (`research.routing.replay` has the form), optionally with its
weight: `irc-train=1.5`. What a model is worth is measured on files that it was not
trained on, third by third, which also sets the temperature; on whole sets left out (`--check`); and
on sets named by `--test`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from research.routing.crossing import Crossed, Scores, curves, figures
from research.routing.feature_table import Integers, Table, joined, tabulated
from research.routing.model_file import EMBEDDER, Trained, dumped, source, written
from research.routing.networks import Networking, trained_network
from research.routing.openings import Opening, trained_openings
from research.routing.replay import embedded, replay
from research.routing.resting import rested
from service.bench.routing.routing_figures import measured
from service.routing.features.embedding_features import NEARNESS_FEATURES
from service.routing.features.feature_set import CONTEXT_FEATURES
from service.routing.features.turn_features import FROM_VECTORS
from service.routing.routing_model import Scorer

FOLDS = 3
_OF_OTHER_KINDS = 1.10
"""How much less sure the networks may be than they are right of held-out files: of conversations of
kinds that they have not seen they are too sure."""
_FROM_VECTORS = (
    *NEARNESS_FEATURES,
    *(name for name in CONTEXT_FEATURES if name.split("_", 1)[-1] in NEARNESS_FEATURES),
    *FROM_VECTORS,
)


@dataclass(frozen=True)
class Training:
    """How all parts are trained."""

    opening: Opening = field(default_factory=Opening)
    network: Networking = field(default_factory=Networking)
    networks: int = 3
    """How many that see vectors."""
    words_only: int = 1
    """How many that see none."""


def thirds(table: Table) -> Integers:
    """Which third of the files a message is in, shape (M,)."""
    return np.asarray(np.unique(table.file, return_inverse=True)[1] % FOLDS)


def scorers(tables: Sequence[Table], how: Training) -> dict[str, Scorer]:
    """Both kinds of scorers. Their networks differ by their seeds."""

    def scorer(count: int, *, sees_vectors: bool) -> Scorer:
        seeds = range(how.network.seed, how.network.seed + count)
        without = () if sees_vectors else _FROM_VECTORS
        return Scorer(
            tuple(
                trained_network(
                    tables,
                    replace(how.network, seed=seed),
                    without=without,
                    sees_vectors=sees_vectors,
                )
                for seed in seeds
            ),
            temperature=1.0,
        )

    _one_thread()
    return {
        "with_vectors": scorer(how.networks, sees_vectors=True),
        "words_only": scorer(how.words_only, sees_vectors=False),
    }


def trained(tables: Sequence[Table], how: Training) -> Trained:
    """Train on several sets."""
    return Trained(**scorers(tables, how), openings=trained_openings(tables, how.opening))


def results(model: Trained, table: Table) -> dict[str, Any]:
    """The figures with vectors and without."""
    return {
        "with_vectors": measured(
            Scores.of(model.with_vectors, table).decisions(model.with_vectors.temperature)
        ),
        "words_only": measured(
            Scores.of(model.words_only, table).decisions(model.words_only.temperature)
        ),
    }


def cross_checked(
    tables: Mapping[str, Table], how: Training
) -> tuple[dict[str, dict[str, Crossed]], dict[str, float]]:
    """Train the scorers on two thirds of the files of all sets and judge the others, three times.

    Returns:
        For each kind of scorer and each set what was found, and for each kind the temperature by
        which the true places become likeliest, each set weighing as in training, and a little more.
    """
    crossed: dict[str, dict[str, Crossed]] = {"with_vectors": {}, "words_only": {}}
    for fold in range(FOLDS):
        rest = [table.part(thirds(table) != fold) for table in tables.values()]
        for kind, scorer in scorers(rest, how).items():
            for name, table in tables.items():
                held = table.part((thirds(table) == fold) & ~table.made_up)
                crossed[kind].setdefault(name, Crossed(scores=[])).scores.append(
                    Scores.of(scorer, held)
                )
                _tell(f"{kind} {name} {fold}", measured(crossed[kind][name].scores[-1].decisions()))
    return crossed, {kind: _temperature(list(sets.values())) for kind, sets in crossed.items()}


def _temperature(sets: Sequence[Crossed]) -> float:
    grid = np.geomspace(0.6, 1.8, 56)
    losses = [sum(each.weight * each.loss(float(at)) for each in sets) for at in grid]
    return round(float(grid[int(np.argmin(losses))]) * _OF_OTHER_KINDS, 3)


def left_out(tables: dict[str, Table], how: Training) -> dict[str, dict[str, Any]]:
    """Results on each set when nothing of it was trained on."""
    by_set: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        others = [each for other, each in tables.items() if other != name]
        model = trained(others, how)
        by_set[name] = results(model, table.part(~table.made_up))
        _tell(f"{name}, left out", by_set[name])
    return by_set


def _tell(what: str, figures: dict[str, Any]) -> None:
    print(what, json.dumps(figures), file=sys.stderr, flush=True)


@click.command()
@click.argument("sets", nargs=-1, required=True)
@click.option("--test", "tests", multiple=True, help="A set to measure on only.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write to.")
@click.option("--vectors", type=click.Path(dir_okay=False, path_type=Path), help="A cache (.npz).")
@click.option("--check", is_flag=True, help="Measure on each set left out whole as well.")
@click.option("--epochs", default=Networking.epochs, show_default=True, help="Of a network.")
@click.option("--networks", default=Training.networks, show_default=True, help="With vectors.")
@click.option("--seed", default=0, show_default=True)
def main(
    sets: tuple[str, ...],
    tests: tuple[str, ...],
    out: Path | None,
    vectors: Path | None,
    check: bool,
    epochs: int,
    networks: int,
    seed: int,
) -> None:
    """Train the router's model on SETS, folders with an optional weight: DIR or DIR=1.5."""
    from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

    _one_thread()
    weights = {Path(each.rpartition("=")[0] or each): _weight(each) for each in sets}
    folders = [*weights, *map(Path, tests)]
    embedder = SentenceTransformerEmbedder(EMBEDDER, quick_start=False)
    vectors_by_text = embedded(folders, embedder.embed_queries, vectors)
    asked = {folder: list(replay(folder, vectors_by_text)) for folder in folders}
    tables = {folder: tabulated(asked[folder]) for folder in folders}
    training = {
        folder.name: joined(
            [tables[folder], tabulated(rested(asked[folder], seed), made_up=True)]
        ).weighing(weight)
        for folder, weight in weights.items()
    }
    how = Training(Opening(seed=seed), Networking(epochs=epochs, seed=seed), networks=networks)
    crossed, temperatures = cross_checked(training, how)
    model = trained(list(training.values()), how).at(temperatures)
    report: dict[str, Any] = {"held_out_files": figures(crossed, temperatures)}
    report["tests"] = {Path(each).name: results(model, tables[Path(each)]) for each in tests}
    if check:
        report["left_out"] = left_out(training, how)
    if out is not None:
        settings = {"command": _command(weights, epochs, networks, seed), **asdict(how)}
        sources = [source(folder, weight, tables[folder]) for folder, weight in weights.items()]
        out.write_text(
            dumped(written(model, sources, curves(crossed, temperatures), settings)), "utf-8"
        )
    print(json.dumps(report, indent=2))


def _one_thread() -> None:
    """With one thread sums are made in one order, and the same command writes the same file."""
    import torch

    torch.set_num_threads(1)


def _command(weights: Mapping[Path, float], epochs: int, networks: int, seed: int) -> str:
    sets = " ".join(f"{folder.name}={weight:g}" for folder, weight in weights.items())
    command = "python -m research.routing.train_router"
    return f"{command} {sets} --epochs {epochs} --networks {networks} --seed {seed}"


def _weight(named: str) -> float:
    return float(named.rpartition("=")[2]) if "=" in named else 1.0


if __name__ == "__main__":
    main()
