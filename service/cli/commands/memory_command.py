"""`rondo memory`: how much is remembered, facts and notes, the vector index, and a check of it."""

from __future__ import annotations

import time
from urllib.parse import quote

import click

from service.cli.commands.command_options import json_option
from service.cli.commands.exchange_command import export_command, import_command
from service.cli.commands.forget_command import forget
from service.cli.commands.search_command import expand, search
from service.cli.daemon.daemon_client import Daemon, connect
from service.cli.daemon.stream_items import body_of, read_as
from service.cli.terminal.output import aside
from service.domain.search_checks import MOST_QUESTIONS, QUESTIONS
from service.wire.memory_bodies import Stats

_ASKED_EVERY = 0.5  # seconds
_WHEN_LOST = "The building of the index goes on by itself when the daemon starts again."


def _look_on(daemon: Daemon) -> Stats:
    """Show how far the index has come until it is done, or cannot go on.

    Returns:
        What ``/v1/memory/stats`` says in the end.

    Raises:
        DaemonError: see `service.cli.daemon.daemon_errors`.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=aside(), transient=True) as bar:
        task = bar.add_task("beginning", total=None)
        while True:
            stats = read_as(Stats, daemon.get("/v1/memory/stats"))
            now = stats.progress
            if now is None or stats.problem:
                return stats
            bar.update(task, description=now.doing, completed=now.done, total=now.total)
            time.sleep(_ASKED_EVERY)


@click.command()
@click.option("--remove", metavar="ID", help="Delete this note; the words stay.")
@json_option
def notes(remove: str | None, as_json: bool) -> None:
    """Show the notes on persons, projects and topics, with what each sentence rests on."""
    from service.cli.terminal.output import out, plain, print_json
    from service.cli.views.memory_views import print_consolidation, print_notes
    from service.domain.anchors import MemoryNote
    from service.wire.memory_bodies import NoteList

    with connect() as daemon:
        if remove is not None:
            response = daemon.delete(f"/v1/memory/notes/{quote(remove, safe='')}")
        else:
            response = daemon.get("/v1/memory/notes")
    if as_json:
        print_json(response)
    elif remove is not None:
        removed = read_as(MemoryNote, response)
        out().print(f"removed  {plain(removed.subject)}", soft_wrap=True)
    else:
        listing = read_as(NoteList, response)
        print_notes(listing.notes, with_ids=True)
        if not listing.notes:
            aside().print("There are no notes.", style="dim")
        print_consolidation(listing.consolidation)


@click.command()
@click.option("--force", is_flag=True, help="Even when the same embedder built the index.")
@json_option
def reindex(force: bool, as_json: bool) -> None:
    """Build the index of the configured embedder beside the old one, then swap them.

    The daemon does it in the background: interrupting this command stops nothing.
    """
    from service.cli.daemon.daemon_errors import DaemonNotRunningError, advice_when_lost
    from service.cli.terminal.output import plain, print_json
    from service.wire.memory_bodies import ReindexRequest, ReindexStarted

    with connect() as daemon:
        with advice_when_lost("If nothing was begun yet, run the same command again."):
            request = body_of(ReindexRequest, force=force)
            begun = read_as(ReindexStarted, daemon.post("/v1/memory/reindex", request))
        if not as_json and begun.notice:
            aside().print(plain(begun.notice), style="yellow")
        try:
            with advice_when_lost(_WHEN_LOST):
                stats = _look_on(daemon)
        except DaemonNotRunningError as error:
            advice = f"{error.advice} {_WHEN_LOST}"
            raise DaemonNotRunningError(error.detail, advice=advice) from error
    if as_json:
        now = stats.model_dump(mode="json", include={"index", "problem"})
        print_json({**begun.model_dump(), **now})
    elif begun.started:
        count = stats.index.indexed if stats.index else 0
        aside().print(f"The new index is in use; it holds {count} segments.", style="green")
    if stats.problem:
        if not as_json:
            aside().print(plain(stats.problem), style="red")
        raise SystemExit(1)


@click.command()
@click.option(
    "--questions",
    type=click.IntRange(1, MOST_QUESTIONS),
    default=QUESTIONS,
    show_default=True,
    help="Ask at most so many.",
)
@json_option
def check(questions: int, as_json: bool) -> None:
    """Ask memory for what it holds, and compare with the last check.

    The questions are made from what is remembered. Run it before and after an upgrade, or a change
    of the embedder. Exits with 1 where less is found than chance would lose.
    """
    from service.cli.terminal.output import print_json
    from service.cli.views.memory_views import print_check
    from service.domain.search_checks import SearchCheck
    from service.wire.memory_bodies import SearchCheckRequest

    with connect() as daemon:
        request = body_of(SearchCheckRequest, questions=questions)
        response = daemon.post("/v1/memory/check", request, takes_long=True)
    checked = read_as(SearchCheck, response)
    if as_json:
        print_json(response)
    else:
        print_check(checked)
    if checked.earlier is not None and checked.earlier.finds_less:
        raise SystemExit(1)


@click.command()
@json_option
def facts(as_json: bool) -> None:
    """Show what you asked to be remembered, and what corrects it."""
    from service.cli.terminal.output import print_json
    from service.cli.views.memory_views import print_facts
    from service.wire.memory_bodies import FactList

    with connect() as daemon:
        response = daemon.get("/v1/memory/facts")
    if as_json:
        print_json(response)
    else:
        print_facts(read_as(FactList, response).facts)


@click.command()
@click.argument("fact")
@click.option("--replaces", metavar="ANCHOR", help="What it corrects: an older fact, or any words.")
@json_option
def remember(fact: str, replaces: str | None, as_json: bool) -> None:
    """Remember a FACT for good: one sentence that is understood by itself."""
    from service.cli.terminal.output import out, plain, print_json
    from service.wire.memory_bodies import FactKept, RememberRequest

    with connect() as daemon:
        request = body_of(RememberRequest, fact=fact, replaces=replaces)
        response = daemon.post("/v1/memory/facts", request)
    if as_json:
        print_json(response)
    else:
        out().print(f"remembered  {plain(read_as(FactKept, response).anchor)}", soft_wrap=True)


@click.group()
def memory() -> None:
    """Search what is remembered, and read around what was found."""


memory.add_command(notes)
memory.add_command(facts)
memory.add_command(remember)
memory.add_command(expand)
memory.add_command(forget)
memory.add_command(search)
memory.add_command(reindex)
memory.add_command(check)
memory.add_command(export_command)
memory.add_command(import_command)


@memory.command()
@json_option
def stats(as_json: bool) -> None:
    """Show how much is remembered, and how much of it waits to be embedded."""
    from service.cli.terminal.output import print_json
    from service.cli.views.memory_views import print_index, print_stats

    with connect() as daemon:
        response = daemon.get("/v1/memory/stats")
    if as_json:
        print_json(response)
    else:
        stats_now = read_as(Stats, response)
        print_stats(stats_now)
        print_index(stats_now)
