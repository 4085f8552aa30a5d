"""The models that can run on this machine, as a list for people and as JSON."""

from __future__ import annotations

from pydantic import JsonValue

from service.cli.terminal.output import aside, out
from service.config import Settings
from service.llm.model_descriptions import capabilities, embedded_model
from service.models.catalog import CATALOG
from service.models.machine import chosen, shortage
from service.models.weight_store import ModelStore


def known_models(settings: Settings) -> list[JsonValue]:
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
                "in_use": model.name == _in_use(settings),
                "fits": shortage(model.name, choice.machine) is None,
                "is_machines_choice": model.name == choice.name,
            }
        )
    return entries


def print_models(settings: Settings) -> None:
    """The list, with what each is good for."""
    from rich.padding import Padding
    from rich.text import Text

    store = ModelStore(settings.models_dir)
    choice = chosen()
    in_use = _in_use(settings)
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


def _in_use(settings: Settings) -> str | None:
    return embedded_model(settings) if settings.llm.effective_provider == "embedded" else None
