"""`rondo models`: the weights on this machine, listed, fetched and chosen."""

from __future__ import annotations

import os

import click
from pydantic import JsonValue

from service.cli.commands.command_options import json_option
from service.cli.daemon.daemon_settings import daemon_settings
from service.cli.settings_edit import Changes, edited, file_to_change
from service.cli.terminal.download_bar import pull_with_progress
from service.cli.terminal.output import aside, out, plain, print_json
from service.config import Settings, load_settings
from service.llm.model_descriptions import capabilities, embedded_model, model_in_words
from service.models.catalog import CATALOG, known_model, parse_source
from service.models.fetch import megabytes
from service.models.machine import chosen, read_machine, shortage
from service.models.weight_store import ModelStore

_AUTO = "auto"


@click.group(invoke_without_command=True)
@click.pass_context
def models(context: click.Context) -> None:
    """List, fetch and choose the models that run on this machine."""
    if context.invoked_subcommand is None:
        context.invoke(list_models)


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the known models: which are here, which is in use, and which the machine carries."""

    settings = load_settings()
    if as_json:
        print_json(_known_models(settings))
    else:
        _print_models(settings)


@models.command()
@click.argument("name")
@click.option("--no-pull", is_flag=True, help="Leave the fetching to the daemon's next start.")
def use(name: str, no_pull: bool) -> None:
    """Use another model that runs on this machine: fetch it, and set it in rondo.toml.

    `auto` is the one that the machine carries. A daemon that runs changes with its next start.
    """

    _use_model(load_settings(), name, pull=not no_pull)


@models.command()
@click.argument("name", required=False)
@click.option(
    "--from", "source", metavar="PLACE", help="A file or an address to fetch it from instead."
)
def pull(name: str | None, source: str | None) -> None:
    """Fetch a model (the one that the settings use), and verify it. What is here is kept."""

    settings = load_settings()
    if name is None:
        if settings.llm.effective_provider == "embedded":
            name = embedded_model(settings)
        else:
            name = chosen().name
    sources = None if source is None else (parse_source(source),)
    path = pull_with_progress(settings.models_dir, name, sources=sources)
    aside().print(f"{name} is ready: {path}", style="green")


def _known_models(settings: Settings) -> list[JsonValue]:
    """Each model of the catalogue, and how it stands here."""
    store = ModelStore(settings.models_dir)
    choice = chosen()
    entries: list[JsonValue] = []
    for model in CATALOG:
        path = store.path(model.name)
        entries.append(
            {
                "name": model.name,
                "description": model.description,
                "bytes": model.size,
                "sha256": model.sha256,
                "licence": model.licence,
                "languages": model.languages,
                "path": str(path) if path else None,
                "in_use": model.name == _model_in_use(settings),
                "fits": shortage(model.name, choice.machine) is None,
                "is_machines_choice": model.name == choice.name,
            }
        )
    return entries


def _print_models(settings: Settings) -> None:
    """The list, with what each is good for."""
    from rich.padding import Padding
    from rich.text import Text

    store = ModelStore(settings.models_dir)
    choice = chosen()
    in_use = _model_in_use(settings)
    for model in CATALOG:
        is_here = store.path(model.name) is not None
        marks = ["here" if is_here else "not here"]
        if model.name == in_use:
            marks.insert(0, "in use")
        if model.name == choice.name:
            marks.append("the machine's choice")
        head = Text.assemble(
            (f"{model.name:<20}", "bold" if model.name == in_use else ""),
            f"{model.size / 1e6:>6,.0f} MB  ",
            (", ".join(marks), "green" if is_here else "dim"),
        )
        about = f"{model.languages}. {model.description}"
        if reason := shortage(model.name, choice.machine):
            about += f" Not for this machine: {reason}."
        out().print(head)
        out().print(Padding(Text(about, style="dim"), (0, 0, 0, 2), expand=False))
    if in_use is None:
        aside().print("\nAnother provider answers, so that none of them is used.", style="dim")
        return
    if not settings.llm.model:
        way = "" if store.path(choice.name) else store.way_without(choice.name)
        aside().print(f"\n{choice.in_words()} {way}".rstrip())
    aside().print(f"\n{capabilities(settings)}", style="dim")


def _model_in_use(settings: Settings) -> str | None:
    return embedded_model(settings) if settings.llm.effective_provider == "embedded" else None


def _use_model(settings: Settings, name: str, *, pull: bool) -> None:
    """Set a model in the file of settings, and say what becomes of it.

    Args:
        settings: as they are in effect.
        name: of the catalogue, or `_AUTO`: the machine's choice.
        pull: fetch it first where it is not here; a fetch that fails changes nothing.

    Raises:
        NotFoundError: no model of that name is known.
        ModelStoreError: it could not be fetched.
        ConfigurationError: the file cannot be read or written.
    """
    chosen_name = chosen().name if name == _AUTO else name
    _tell_of(settings, chosen_name)
    if pull:
        pull_with_progress(settings.models_dir, chosen_name, quiet=True)
    changes: Changes = {"model": None if name == _AUTO else name}
    if settings.llm.effective_provider != "embedded":
        aside().print(f"So far, {plain(model_in_words(settings))} answered.")
        changes = {**changes, "provider": "embedded"}
    edit = edited(file_to_change(settings), "llm", changes)
    if edit.is_change:
        for line in edit.diff():
            aside().print(plain(f"  {line}"), style="dim")
        edit.write()
        aside().print(plain(f"{edit.path} is changed."), style="green")
    else:
        aside().print(plain(f"{edit.path} says so already."), style="dim")
    _tell_when(settings, chosen_name, pulled=pull)


def _tell_of(settings: Settings, name: str) -> None:
    model = known_model(name)
    is_here = ModelStore(settings.models_dir).path(name) is not None
    size = f"{megabytes(model.size)}, {'here' if is_here else 'not here yet'}"
    aside().print(f"{name} ({size}). {model.description}")
    if reason := shortage(name, read_machine()):
        aside().print(f"Not for this machine, though you can try: {reason}.", style="yellow")


def _tell_when(settings: Settings, name: str, *, pulled: bool) -> None:
    """When the change counts: with the next start, if nothing else has the last word."""
    now = load_settings()
    if now.llm.effective_provider != "embedded" or embedded_model(now) != name:
        given = sorted(each for each in os.environ if each.upper().startswith("RONDO_LLM"))
        what = ", ".join(given) or "another setting"
        aside().print(
            f"{what} comes before the file, and {plain(model_in_words(now))} still answers where"
            " that is set: unset it.",
            style="yellow",
        )
    if not pulled:
        aside().print("Where it is not here, the daemon fetches it when it starts.", style="dim")
    effective = daemon_settings(settings)
    if effective is not None and effective.model != f"{name}, on this machine":
        words = f"The daemon works with {effective.model} until it is started again."
        aside().print(plain(words), style="yellow")
