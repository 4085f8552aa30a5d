"""`rondo models`: the weights on this machine."""

from __future__ import annotations

import click

from service.cli.terminal.date_parameter import json_option


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
    from service.cli.terminal.output import print_json
    from service.cli.weights.model_list import known_models, print_models
    from service.config import load_settings

    settings = load_settings()
    if as_json:
        print_json(known_models(settings))
    else:
        print_models(settings)


@models.command()
@click.argument("name")
@click.option("--no-pull", is_flag=True, help="Leave the fetching to the daemon's next start.")
def use(name: str, no_pull: bool) -> None:
    """Use another model that runs on this machine: fetch it, and set it in rondo.toml.

    `auto` is the one that the machine carries. A daemon that runs changes with its next start.
    """
    from service.cli.weights.model_use import use_model
    from service.config import load_settings

    use_model(load_settings(), name, pull=not no_pull)


@models.command()
@click.argument("name", required=False)
@click.option(
    "--from", "source", metavar="PLACE", help="A file or an address to fetch it from instead."
)
def pull(name: str | None, source: str | None) -> None:
    """Fetch a model (the one that the settings use), and verify it. What is here is kept."""
    from service.cli.terminal.download_bar import pull_with_progress
    from service.cli.terminal.output import aside
    from service.config import load_settings
    from service.llm.model_descriptions import embedded_model
    from service.models.catalog import parse_source
    from service.models.machine import chosen

    settings = load_settings()
    if name is None:
        if settings.llm.effective_provider == "embedded":
            name = embedded_model(settings)
        else:
            name = chosen().name
    sources = None if source is None else (parse_source(source),)
    path = pull_with_progress(settings.models_dir, name, sources=sources)
    aside().print(f"{name} is ready: {path}", style="green")
