"""`rondo bench`: reproducible measurements, as JSON on standard output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

_json = click.option(
    "--json", "as_json", is_flag=True, help="Accepted everywhere; a benchmark always prints JSON."
)
_data = click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder of a set, or of several.",
)
_sets = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME",
    help="Only this set; a pattern does; may be given several times.",
)
_ARMS = ("lexical", "dense", "hybrid")


class _Arms(click.ParamType[tuple[str, ...]]):
    """Names of arms, separated by commas."""

    name = "arms"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Read them, or fail with words."""
        named = [each.strip() for each in str(value).split(",")]
        for each in named:
            if each not in _ARMS:
                self.fail(f"{each!r} is no arm. There are {', '.join(_ARMS)}.", param, ctx)
        return tuple(dict.fromkeys(named))


class _Sizes(click.ParamType[tuple[int, ...]]):
    """Numbers of segments, separated by commas."""

    name = "sizes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read them, or fail with words."""
        try:
            sizes = {int(each) for each in str(value).split(",")}
        except ValueError:
            self.fail(f"{value!r} are no numbers. Write 1000,10000.", param, ctx)
        if min(sizes) < _SMALLEST:
            self.fail(f"the smallest size is {_SMALLEST}.", param, ctx)
        return tuple(sorted(sizes))


_SMALLEST = 100


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
    _print(run(plan, tell=_tell))


@bench.command()
@_data
@_sets
@click.option(
    "--arms",
    type=_Arms(),
    default=",".join(_ARMS),
    show_default=True,
    help="By words alone, by vectors alone, by both as memory searches.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the queries' order.")
@_json
def retrieval(
    data: Path, sets: tuple[str, ...], arms: tuple[Any, ...], seed: int, as_json: bool
) -> None:
    """How much of the evidence memory finds, on data of anybody's own."""
    from service.bench.retrieval import table
    from service.bench.retrieval.report import Plan, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    plan = Plan(
        data=data,
        sets=sets,
        arms=arms,
        seed=seed,
        make_embedder=lambda: create_embedder(settings),
    )
    report = run(plan, tell=_tell)
    for line in table.lines(report):
        _tell(line)
    _print(report)


@bench.command()
@click.option(
    "--sizes",
    type=_Sizes(),
    default="1000,10000,100000",
    show_default=True,
    help="Segments in the store.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=16),
    default=512,
    show_default=True,
    help="Segments that are archived with the real embedder at each size.",
)
@click.option(
    "--queries", type=click.IntRange(min=2), default=40, show_default=True, help="Of each kind."
)
@click.option("--real", is_flag=True, help="Embed everything by the model: 40 minutes and more.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws texts and queries.")
@_json
def memory(
    sizes: tuple[int, ...], sample: int, queries: int, real: bool, seed: int, as_json: bool
) -> None:
    """Archiving and searching, beside the same embedder and a bare Chroma in the same run."""
    from service.bench.memory.report import Plan, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    plan = Plan(
        sizes=sizes,
        sample=sample,
        queries=queries,
        real=real,
        seed=seed,
        make_embedder=lambda: create_embedder(settings),
    )
    _print(run(plan, tell=_tell))


@bench.command()
@_data
@_sets
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(("embedding", "llm", "full")),
    help="The trained model alone; the language model for every message; both, as the daemon is"
    " set; may be given several times. Default: embedding, and full where an endpoint is set.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Route only so many messages of a set, drawn."
)
@click.option(
    "--loops",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Time decisions among so many made-up loops, too; 0: do not.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws what is drawn.")
@_json
def routing(
    data: Path,
    sets: tuple[str, ...],
    methods: tuple[Any, ...],
    limit: int | None,
    loops: int,
    seed: int,
    as_json: bool,
) -> None:
    """How often the router brings a message where it belongs, on data of anybody's own."""
    from service.agent.assemble import options_from_settings
    from service.agent.llm import create_llm
    from service.bench.routing import summary
    from service.bench.routing.report import Plan, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    near = settings.llm.effective_provider == "embedded"
    plan = Plan(
        data=data,
        sets=sets,
        methods=tuple(dict.fromkeys(methods))
        or (("embedding",) if near else ("embedding", "full")),
        limit=limit,
        loops=loops,
        seed=seed,
        options=options_from_settings(settings).router,
        make_embedder=lambda: create_embedder(settings),
        make_llm=lambda: create_llm(settings),
    )
    report = run(plan, tell=_tell)
    for line in summary.lines(report):
        _tell(line)
    _print(report)


def _tell(words: str) -> None:
    click.echo(words, err=True)


def _print(report: dict[str, Any]) -> None:
    click.echo(json.dumps(report, indent=2, ensure_ascii=False))
