"""`rondo serve`: the daemon in the foreground.

Before it starts, it is said what it takes of the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from service.cli.terminal.output import aside, plain
from service.config import Settings, load_settings
from service.domain.errors import ModelStoreError, NotFoundError
from service.llm.model_descriptions import embedded_model
from service.models.catalog import KnownModel, known_model
from service.models.fetch import megabytes
from service.models.machine import NEEDS, chosen, gigabytes, memory_needed, read_machine, shortage
from service.models.weight_store import ModelStore


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: 8765]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Where everything is kept.",
)
@click.option("--verbose", is_flag=True, help="Log each step of each run loop: log_level debug.")
def serve(host: str | None, port: int | None, data_dir: str | None, verbose: bool) -> None:
    """Start the daemon, and stay until Ctrl-C.

    Flags come before RONDO_* variables, and these before rondo.toml; `rondo config` shows what is
    in effect.
    """
    from service.server.daemon_main import serve as run_server

    listen = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    flags: dict[str, object] = {"server": listen} if listen else {}
    if data_dir is not None:
        flags["data_dir"] = data_dir
    if verbose:
        flags["log_level"] = "debug"
    settings = load_settings(**flags)
    _tell_what_it_takes(settings)
    run_server(settings)


def _tell_what_it_takes(settings: Settings) -> None:
    """Some lines on standard error: the model, memory, disk. None where no model runs here."""
    if settings.llm.effective_provider != "embedded":
        return
    try:
        model = known_model(embedded_model(settings))
    except NotFoundError:
        return  # whoever makes the model says so
    from rich.table import Table

    lines = Table.grid(padding=(0, 1))
    lines.add_column(width=6, style="bold")
    lines.add_column(ratio=1)
    lines.add_row("Model", plain(_about_the_model(settings, model)))
    lines.add_row("Memory", _about_memory(model))
    lines.add_row("Disk", plain(_about_the_disk(settings, model)))
    store = ModelStore(settings.models_dir)
    if not settings.llm.model and store.path(model.name) is None:
        way = store.way_without(model.name) or "`rondo models` shows others."
        lines.add_row("Fetch", f"{megabytes(model.size)}. {way}")
    aside().print(lines)


def _about_the_model(settings: Settings, model: KnownModel) -> str:
    why = "Set by llm.model." if settings.llm.model else chosen().in_words()
    return f"{model.name}, on this machine. {model.description} {why}"


def _about_memory(model: KnownModel) -> str:
    machine = read_machine()
    words = (
        f"up to {gigabytes(memory_needed(model.name))},"
        f" {gigabytes(NEEDS[model.name].memory_bytes)} of them for the model;"
        f" {gigabytes(machine.memory_bytes)} may be used."
    )
    reason = shortage(model.name, machine)
    return f"{words} This machine is small for it: {reason}." if reason else words


def _about_the_disk(settings: Settings, model: KnownModel) -> str:
    data = f"{megabytes(_size_of(settings.data_dir))} of data in {settings.data_dir}"
    store = ModelStore(settings.models_dir)
    if store.path(model.name) is not None:
        return f"{megabytes(model.size)} of the model, here; {data}."
    try:
        needed, free = store.room_needed(model.name)
    except ModelStoreError as error:
        return f"{data}. The model cannot be kept: {error.detail}. {error.advice}"
    where = f"in {settings.models_dir}, where {gigabytes(free)} are free"
    words = f"{megabytes(needed)} for the model {where}; {data}."
    if free < needed:
        advice = "Free some space, or choose another folder with RONDO_MODELS_DIR."
        return f"{words} That is too little: the model is not fetched. {advice}"
    return (
        f"{words} The model is fetched now, or what is missing of it. Memory and search work"
        " meanwhile; messages are kept, and answered then."
    )


def _size_of(folder: Path) -> int:
    """Bytes of the files in a folder; what goes meanwhile, or cannot be looked at, is left out."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total
