"""`rondo bench`: reproducible measurements, as JSON on standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from service.bench.bench_options import as_json_option, data_option, print_json, sets_option, tell
from service.bench.parameters import Sizes
from service.bench.retrieval.retrieval_command import relevance, retrieval


@click.group()
def bench() -> None:
    """Measure Rondo against its raw baseline; JSON on standard output."""


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
@as_json_option
def loop(
    steps: tuple[int, ...],
    repeats: int,
    peers: bool,
    peer_steps: tuple[int, ...],
    peer_python: Path | None,
    concurrent: int | None,
    concurrent_steps: int,
    as_json: bool,
) -> None:
    """Milliseconds a step of a run loop, with the journal on and a model that answers at once."""
    from service.bench.loop.loop_report import DEFAULT_STEPS, Plan, run
    from service.bench.loop.worker_process import find_peers

    steps = steps or DEFAULT_STEPS
    plan = Plan(
        steps=steps,
        repeats=repeats,
        peers=find_peers(peer_python) if peers else None,
        peer_steps=peer_steps or steps,
        concurrent=concurrent or 0,
        concurrent_steps=concurrent_steps,
    )
    print_json(run(plan, tell=tell))


@bench.command()
@click.option(
    "--sizes",
    type=Sizes(),
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
@as_json_option
def memory(
    sizes: tuple[int, ...], sample: int, queries: int, real: bool, seed: int, as_json: bool
) -> None:
    """Archiving and searching, beside the same embedder and a bare Chroma in the same run."""
    from service.bench.memory.memory_report import Plan, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    plan = Plan(
        sizes=sizes,
        sample=sample,
        queries=queries,
        real=real,
        seed=seed,
        make_embedder=lambda: create_embedder(settings, quick_start=False),
    )
    print_json(run(plan, tell=tell))


@bench.command()
@data_option
@sets_option
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(("embedding", "llm", "full")),
    help="The trained model alone; the language model for every message; both, as the daemon is"
    " set; may be given several times. Default: embedding, and full where an endpoint is set.",
)
@click.option(
    "--judge-reliability",
    "judges",
    multiple=True,
    type=click.FloatRange(0, 1),
    help="Measure, too, what a language model would be worth whose judgement is right with this"
    " probability; may be given several times.",
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
@as_json_option
def routing(
    data: Path,
    sets: tuple[str, ...],
    methods: tuple[Any, ...],
    judges: tuple[float, ...],
    limit: int | None,
    loops: int,
    seed: int,
    as_json: bool,
) -> None:
    """How often the router brings a message where it belongs, on data of anybody's own."""
    from service.agent.agent_settings import options_from_settings
    from service.bench.routing.routing_report import Plan, report_lines, run
    from service.config import load_settings
    from service.llm.factory import create_llm
    from service.memory.embedders import create_embedder

    settings = load_settings()
    near = settings.llm.effective_provider == "embedded"
    plan = Plan(
        data=data,
        sets=sets,
        methods=tuple(dict.fromkeys(methods))
        or (("embedding",) if near else ("embedding", "full")),
        judges=tuple(dict.fromkeys(judges)),
        limit=limit,
        loops=loops,
        seed=seed,
        options=options_from_settings(settings).router,
        make_embedder=lambda: create_embedder(settings, quick_start=False),
        make_llm=lambda: create_llm(settings),
    )
    report = run(plan, tell=tell)
    for line in report_lines(report):
        tell(line)
    print_json(report)


@bench.command()
@click.option(
    "--data",
    default="data/routing/waiting",
    show_default=True,
    type=click.Path(path_type=Path),
    help="A file of scenes, or a folder of them.",
)
@click.option("--words-only", is_flag=True, help="Without an embedder.")
@as_json_option
def waiting(data: Path, words_only: bool, as_json: bool) -> None:
    """Whether replies to run loops that wait get there, and all else elsewhere."""
    from service.bench.waiting.waiting_report import Plan, run
    from service.config import load_settings
    from service.memory.embedders import create_embedder

    settings = load_settings()
    make = None if words_only else lambda: create_embedder(settings, quick_start=False)
    print_json(run(Plan(data=data, make_embedder=make), tell=tell))


@bench.command()
@click.option(
    "--data",
    multiple=True,
    default=("data/answers/dev",),
    show_default=True,
    type=click.Path(path_type=Path),
    help="A file of conversations, or a folder of them; may be given several times.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="Of `rondo models list`; may be given several times. Default: the one that is set.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CATEGORY",
    help="Only these conversations; a pattern does; may be given several times.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often each is had; the lowest share is told beside the mean.",
)
@click.option(
    "--bare/--no-bare", default=True, show_default=True, help="Ask the model by itself, too."
)
@click.option(
    "--starts/--no-starts",
    default=True,
    show_default=True,
    help="Time the first message after a start, too.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep all that was said in this file, as JSON Lines.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the order.")
@as_json_option
def answers(
    data: tuple[Path, ...],
    models: tuple[str, ...],
    only: tuple[str, ...],
    runs: int,
    bare: bool,
    starts: bool,
    save: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Whether answers are right, in conversations with checks, beside those of the bare model."""
    from service.bench.answers.answer_report import Plan, run
    from service.config import load_settings

    plan = Plan(
        data=data,
        settings=load_settings(),
        models=models,
        only=only,
        runs=runs,
        bare=bare,
        starts=starts,
        save=save,
        seed=seed,
    )
    print_json(run(plan, tell=tell))


bench.add_command(retrieval)
bench.add_command(relevance)
