"""`rondo bench`: reproducible measurements, as JSON on standard output."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group()
def bench() -> None:
    """Measure the house against its raw floor; JSON on standard output."""


@bench.command()
@click.option(
    "--steps",
    multiple=True,
    type=click.IntRange(min=2),
    help="Steps of a loop; may be given several times. Default: 20, 200 and 1000.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Runs of each; the medians count.",
)
@click.option(
    "--peers", is_flag=True, help="Measure other libraries at the same work, in the same run."
)
@click.option(
    "--peer-steps",
    multiple=True,
    type=click.IntRange(min=2),
    help="Steps of the peers' loops; may be given several times. Default: those of our own.",
)
@click.option(
    "--peer-python",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A Python that has the peers. Default: that of .venv-peers, else our own.",
)
@click.option(
    "--concurrent",
    type=click.IntRange(min=1),
    metavar="LOOPS",
    help="Measure so many loops that run at the same time, too.",
)
@click.option(
    "--concurrent-steps",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="Steps of each of them.",
)
def loop(
    steps: tuple[int, ...],
    repeats: int,
    peers: bool,
    peer_steps: tuple[int, ...],
    peer_python: Path | None,
    concurrent: int | None,
    concurrent_steps: int,
) -> None:
    """Milliseconds a step of a run loop, with the journal on and a model that answers at once."""
    from service.bench.loop.peer_python import find
    from service.bench.loop.report import DEFAULT_STEPS, Plan, run

    steps = steps or DEFAULT_STEPS
    plan = Plan(
        steps=steps,
        repeats=repeats,
        peers=find(peer_python) if peers else None,
        peer_steps=peer_steps or steps,
        concurrent=concurrent or 0,
        concurrent_steps=concurrent_steps,
    )
    report = run(plan, tell=lambda words: click.echo(words, err=True))
    click.echo(json.dumps(report, indent=2))
