"""`rondo models`: the weights on this machine."""

from __future__ import annotations

import click

from service.cli.connect import json_option


@click.group()
def models() -> None:
    """List and fetch the models that run on this machine."""


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the known models, and which of them are here."""
    from service.agent.model_words import capabilities, embedded_model
    from service.cli.output import aside, out, print_json
    from service.config import load_settings
    from service.models.catalog import CATALOG
    from service.models.store import ModelStore

    settings = load_settings()
    store = ModelStore(settings.models_dir)
    here = {model.name: store.path(model.name) for model in CATALOG}
    in_use = embedded_model(settings.llm) if settings.llm.effective_provider == "embedded" else None
    if as_json:
        print_json(
            [
                {
                    "name": model.name,
                    "description": model.description,
                    "bytes": model.size,
                    "sha256": model.sha256,
                    "licence": model.licence,
                    "languages": model.languages,
                    "path": str(here[model.name]) if here[model.name] else None,
                    "in_use": model.name == in_use,
                }
                for model in CATALOG
            ]
        )
        return
    from rich.padding import Padding
    from rich.text import Text

    for model in CATALOG:
        mark = ("in use" if model.name == in_use else "here") if here[model.name] else "not here"
        style = "dim" if here[model.name] is None else "green"
        out().print(
            Text.assemble(
                (f"{model.name:<20}", "bold" if model.name == in_use else ""),
                f"{model.size / 1e6:>6,.0f} MB  ",
                (f"{mark:<9}", style),
                (f"  {model.languages}", ""),
            )
        )
        out().print(Padding(Text(model.description, style="dim"), (0, 0, 0, 2), expand=False))
    if in_use is None:
        aside().print("An endpoint is configured, so that none of them is used.", style="dim")
    else:
        aside().print(f"\n{capabilities(settings.llm)}", style="dim")


@models.command()
@click.argument("name", required=False)
@click.option(
    "--from", "source", metavar="PLACE", help="A file or an address to fetch it from instead."
)
@click.option(
    "--if-needed", is_flag=True, help="Do nothing where an endpoint is configured instead."
)
def pull(name: str | None, source: str | None, if_needed: bool) -> None:
    """Fetch a model (the one that the settings use), and verify it. What is here is kept."""
    from service.agent.model_words import embedded_model
    from service.cli.output import aside
    from service.cli.pulling import pull_with_progress
    from service.config import load_settings
    from service.models.catalog import parse_source

    settings = load_settings()
    if if_needed and settings.llm.effective_provider != "embedded":
        return
    if name is None:
        if settings.llm.effective_provider == "embedded":
            name = embedded_model(settings.llm)
        else:
            from service.models.catalog import DEFAULT_MODEL

            name = DEFAULT_MODEL
    sources = None if source is None else (parse_source(source),)
    path = pull_with_progress(settings.models_dir, name, sources=sources, quiet=if_needed)
    if not if_needed:
        aside().print(f"{name} is ready: {path}", style="green")
