"""Train the router's model: `python -m research.routing.train_router SET... --out model.json`.

A SET is a folder of streams (`research.routing.replay` has the form), optionally with its
weight: `irc-train=1.5`. What a model is worth is measured on files that it was not
trained on, third by third, which also sets the temperature; on whole sets left out (`--check`); and
on sets named by `--test`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np

from research.routing.boosting import Boosting, boosted
from research.routing.crossing import Crossed, Scores, curves, figures
from research.routing.feature_table import (
    PROJECTED,
    PROJECTED_CONTEXT,
    Integers,
    Table,
    joined,
    projected,
    read_through,
    tabulated,
    without_projection,
)
from research.routing.model_file import EMBEDDER, Trained, dumped, source, written
from research.routing.networks import Networking, trained_network
from research.routing.projecting import Projecting, trained_projection
from research.routing.replay import embedded, replay
from research.routing.resting import rested
from service.bench.routing.routing_figures import measured
from service.routing.features.embedding_features import NEARNESS_FEATURES
from service.routing.features.feature_set import CONTEXT_FEATURES
from service.routing.features.reader_features import READER_CONTEXT, READER_FEATURES
from service.routing.features.turn_features import FROM_VECTORS
from service.routing.features.turn_network import Network
from service.routing.routing_model import Scorer

FOLDS = 3
_WITHOUT_PROJECTION = 0.1
"""Share of the messages that scorers see without what a projection and a reader say of them."""
_READER = (*READER_FEATURES, *READER_CONTEXT)
_UNREAD = (*PROJECTED, *PROJECTED_CONTEXT, *_READER)
"""What the reader does not see: what others say of the same vectors, and what it says itself."""
_WITHOUT = {
    "with_vectors": (),
    "words_only": (
        *NEARNESS_FEATURES,
        "opens",
        *(name for name in CONTEXT_FEATURES if name.split("_", 1)[-1] in NEARNESS_FEATURES),
        *FROM_VECTORS,
        *_READER,
    ),
}
"""What the two kinds of scorers do not see."""


Run = Callable[[Callable[..., Scorer], Iterable[Any]], Iterable[Scorer]]
"""Makes scorers, perhaps several at once."""


@dataclass(frozen=True)
class Training:
    """How all parts are trained."""

    boosting: Boosting = field(default_factory=Boosting)
    projecting: Projecting = field(default_factory=Projecting)
    reading: Networking = field(default_factory=lambda: Networking(epochs=5))
    judging: Networking = field(default_factory=Networking)


def cross_read(tables: Sequence[Table], how: Training) -> list[Table]:
    """The tables with what a projection and a reader say of files that they were not trained on.

    Of their own they are too sure.
    """
    _one_thread()
    parts: list[list[Table]] = [[] for _ in tables]
    folds = [thirds(table) for table in tables]
    for fold in range(FOLDS):
        others = [table.part(of != fold) for table, of in zip(tables, folds, strict=True)]
        projection = trained_projection(others, how.projecting)
        reader = trained_reader(others, how.reading)
        for own, table, of in zip(parts, tables, folds, strict=True):
            own.append(read_through(projected(table.part(of == fold), projection), reader))
    return [joined(own) for own in parts]


def trained_reader(tables: Sequence[Table], how: Networking) -> Network:
    """The network that sees vectors, and nothing that is learned of them elsewhere."""
    return trained_network(tables, how, without=_UNREAD, sees_vectors=True)


def thirds(table: Table) -> Integers:
    """Which third of the files a message is in, shape (M,)."""
    return np.asarray(np.unique(table.file, return_inverse=True)[1] % FOLDS)


def scorers(seen: Sequence[Table], how: Training, run: Run = map) -> dict[str, Scorer]:
    """Both kinds of scorers, of tables that have been read."""
    random = np.random.default_rng(how.boosting.seed)
    hidden = [
        without_projection(table, random.random(len(table.right)) < _WITHOUT_PROJECTION)
        for table in seen
    ]
    trained_pair = run(
        _scorer, [(hidden, how, _WITHOUT["with_vectors"]), (seen, how, _WITHOUT["words_only"])]
    )
    return dict(zip(_WITHOUT, trained_pair, strict=True))


def _scorer(asked: tuple[Sequence[Table], Training, tuple[str, ...]]) -> Scorer:
    seen, how, without = asked
    _one_thread()
    join, new = boosted(joined(seen), how.boosting, without=without)
    network = trained_network(seen, how.judging, without=without)
    return Scorer(join, new, network, temperature=1.0)


def trained(
    tables: Sequence[Table], how: Training, seen: Sequence[Table] = (), run: Run = map
) -> Trained:
    """Train on several sets; `seen` are the same tables, cross-read, if that was done."""
    by_kind = scorers(seen or cross_read(tables, how), how, run)
    return Trained(
        with_vectors=by_kind["with_vectors"],
        words_only=by_kind["words_only"],
        projection=trained_projection(tables, how.projecting),
        reader=trained_reader(tables, how.reading),
    )


def results(model: Trained, table: Table) -> dict[str, Any]:
    """The figures with vectors and without."""
    seen = model.seen(table)
    return {
        "with_vectors": measured(
            Scores.of(model.with_vectors, seen).decisions(model.with_vectors.temperature)
        ),
        "words_only": measured(
            Scores.of(model.words_only, seen).decisions(model.words_only.temperature)
        ),
    }


def cross_checked(
    seen: dict[str, Table], how: Training, run: Run = map
) -> tuple[dict[str, dict[str, Crossed]], dict[str, float]]:
    """Train the scorers on two thirds of the files of all sets and judge the others, three times.

    Returns:
        For each kind of scorer and each set what was found, and for each kind the temperature by
        which the true places become likeliest, each set weighing as in training.
    """
    crossed: dict[str, dict[str, Crossed]] = {"with_vectors": {}, "words_only": {}}
    for fold in range(FOLDS):
        rest = [table.part(thirds(table) != fold) for table in seen.values()]
        for kind, scorer in scorers(rest, how, run).items():
            for name, table in seen.items():
                held = table.part((thirds(table) == fold) & ~table.made_up)
                crossed[kind].setdefault(name, Crossed(scores=[])).scores.append(
                    Scores.of(scorer, held)
                )
                _tell(f"{kind} {name} {fold}", measured(crossed[kind][name].scores[-1].decisions()))
    return crossed, {kind: _temperature(list(sets.values())) for kind, sets in crossed.items()}


def _temperature(sets: Sequence[Crossed]) -> float:
    grid = np.geomspace(0.6, 1.8, 56)
    losses = [sum(each.weight * each.loss(float(at)) for each in sets) for at in grid]
    return round(float(grid[int(np.argmin(losses))]), 3)


def left_out(tables: dict[str, Table], how: Training, run: Run = map) -> dict[str, dict[str, Any]]:
    """Results on each set when nothing of it was trained on."""
    by_set: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        others = [each for other, each in tables.items() if other != name]
        model = trained(others, how, run=run)
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
@click.option("--rounds", default=Boosting.rounds, show_default=True, help="Trees of a forest.")
@click.option("--epochs", default=Projecting.epochs, show_default=True, help="Of the projection.")
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", default=2, show_default=True, help="Processes that train at once.")
def main(
    sets: tuple[str, ...],
    tests: tuple[str, ...],
    out: Path | None,
    vectors: Path | None,
    check: bool,
    rounds: int,
    epochs: int,
    seed: int,
    workers: int,
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
    training_how = Training(
        Boosting(rounds=rounds, seed=seed),
        Projecting(epochs=epochs, seed=seed),
        replace(Training().reading, seed=seed),
        replace(Training().judging, seed=seed),
    )
    how = {"command": _command(weights, rounds, epochs, seed), **asdict(training_how)}
    seen = cross_read(list(training.values()), training_how)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        run: Run = pool.map
        crossed, temperatures = cross_checked(
            dict(zip(training, seen, strict=True)), training_how, run
        )
        model = trained(list(training.values()), training_how, seen, run).at(temperatures)
        report: dict[str, Any] = {"held_out_files": figures(crossed, temperatures)}
        report["tests"] = {Path(each).name: results(model, tables[Path(each)]) for each in tests}
        if check:
            report["left_out"] = left_out(training, training_how, run)
    if out is not None:
        sources = [source(folder, weight, tables[folder]) for folder, weight in weights.items()]
        out.write_text(dumped(written(model, sources, curves(crossed, temperatures), how)), "utf-8")
    print(json.dumps(report, indent=2))


def _one_thread() -> None:
    """With one thread sums are made in one order, and the same command writes the same file."""
    import torch

    torch.set_num_threads(1)


def _command(weights: Mapping[Path, float], rounds: int, epochs: int, seed: int) -> str:
    sets = " ".join(f"{folder.name}={weight:g}" for folder, weight in weights.items())
    command = "python -m research.routing.train_router"
    return f"{command} {sets} --rounds {rounds} --epochs {epochs} --seed {seed}"


def _weight(named: str) -> float:
    return float(named.rpartition("=")[2]) if "=" in named else 1.0


if __name__ == "__main__":
    main()
