"""`rondo bench`: reproducible measurements, as JSON on standard output."""

from __future__ import annotations

import json

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
def loop(steps: tuple[int, ...]) -> None:
    """Milliseconds a step of a run loop, with the journal on and a scripted model."""
    from service.bench.loop import DEFAULT_STEPS, run

    click.echo(json.dumps(run(steps or DEFAULT_STEPS), indent=2))
