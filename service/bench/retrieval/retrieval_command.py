"""`rondo bench retrieval` and `rondo bench relevance`: what is found, and whether that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from service.bench.bench_options import as_json_option, data_option, print_json, sets_option, tell
from service.bench.parameters import ARMS, Arms


@click.command()
@data_option
@sets_option
@click.option(
    "--arms",
    type=Arms(),
    default=",".join(ARMS),
    show_default=True,
    help="By words alone, by vectors alone, by both as memory searches.",
)
@click.option(
    "--questions",
    metavar="SET",
    help="Ask each set's queries in the words of this set, its translation for instance.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the queries' order.")
@as_json_option
def retrieval(
    data: Path,
    sets: tuple[str, ...],
    arms: tuple[Any, ...],
    questions: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """How much of the evidence memory finds, on data of anybody's own."""
    from service.bench.retrieval.retrieval_report import Plan, report_lines, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    plan = Plan(
        data=data,
        sets=sets,
        arms=arms,
        questions=questions,
        seed=seed,
        make_embedder=lambda: create_embedder(settings, quick_start=False),
    )
    report = run(plan, tell=tell)
    for line in report_lines(report):
        tell(line)
    print_json(report)


@click.command()
@click.option(
    "--data",
    multiple=True,
    default=("data/memory/relevance",),
    show_default=True,
    type=click.Path(path_type=Path),
    help="The folder of a set, or of several; may be given several times.",
)
@sets_option
@click.option("--words-only", is_flag=True, help="Without an embedder.")
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Questions of a set that are asked of one store.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws stores and questions.")
@as_json_option
def relevance(
    data: tuple[Path, ...],
    sets: tuple[str, ...],
    words_only: bool,
    most: int,
    seed: int,
    as_json: bool,
) -> None:
    """Whether memory tells what is about a question from what is merely the best of the rest."""
    from service.bench.retrieval.relevance_report import Plan, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    plan = Plan(
        data=data,
        sets=sets,
        most=most,
        seed=seed,
        make_embedder=lambda: None if words_only else create_embedder(settings, quick_start=False),
    )
    print_json(run(plan, tell=tell))
