"""Writing a choice into ``rondo.toml``, and telling what else there is to know."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError, DaemonNotRunningError
from service.cli.settings_edit import Changes, ConfigEdit, edited, file_to_change
from service.cli.setup.setup_choice import Choice
from service.cli.terminal.output import aside, plain
from service.config import Settings, load_settings
from service.domain.errors import ConfigurationError


def edit_for(settings: Settings, choice: Choice) -> ConfigEdit:
    """What the file would be.

    Raises:
        ConfigurationError: it cannot be read.
    """
    return edited(file_to_change(settings), "llm", choice.changes(settings.llm))


def show_edit(edit: ConfigEdit) -> None:
    """Write what would change. No secret is shown."""
    what = "would be made, with" if edit.before is None else "would change"
    aside().print(f"\n{plain(str(edit.path))} {what}:", style="bold")
    for line in edit.diff():
        aside().print(f"  {plain(line)}", style="red" if line.startswith("-") else "green")


def write(settings: Settings, choice: Choice, edit: ConfigEdit) -> None:
    """Write it, and tell what follows.

    Raises:
        ConfigurationError: it cannot be written.
    """
    if edit.is_change:
        backup = edit.write(private=bool(choice.api_key and not choice.api_key_env))
        kept = f" The old one is {backup.name}, beside it." if backup else ""
        aside().print(f"\nWritten: {plain(str(edit.path))}.{kept}", style="green")
    else:
        aside().print(f"\n{plain(str(edit.path))} says so already.", style="green")
    for note in notes(settings, choice):
        aside().print(plain(note), style="yellow")
    aside().print(what_is_next(settings))


def notes(settings: Settings, choice: Choice) -> Iterator[str]:
    """What could keep the choice from being what answers, and what goes along with it."""
    changes = choice.changes(settings.llm)
    for variable in overriding(changes, os.environ):
        yield f"{variable} is set, and wins over the file: unset it."
    try:
        load_settings()
    except ConfigurationError as error:
        yield f"The settings cannot be used yet: {error.detail}. {error.advice}"
    if choice.api_key_env:
        yield f"The daemon needs {choice.api_key_env} in the environment that it is started in."
    if settings.llm.prices.input is not None and choice.model != settings.llm.model:
        yield "llm.prices stay as they are: see whether they are those of this model."
    along = [
        name
        for name, model in settings.models.items()
        if not model.model_fields_set & {"provider", "base_url"}
    ]
    if along:
        yield (
            f"Of the models by name, {', '.join(along)} have no address of their own: they go to"
            " the same place from now on."
        )


def overriding(changes: Changes, environment: Mapping[str, str]) -> list[str]:
    """The variables that say something else than what is written.

    >>> overriding({"model": "new", "base_url": None}, {"RONDO_LLM__MODEL": "old"})
    ['RONDO_LLM__MODEL']
    """
    given = {name.upper(): value for name, value in environment.items() if value}
    variables = ["RONDO_LLM"] if "RONDO_LLM" in given else []
    for name, value in changes.items():
        variable = f"RONDO_LLM__{name.upper()}"
        if variable in given and given[variable] != _as_variable(value):
            variables.append(variable)
    return variables


def what_is_next(settings: Settings) -> str:
    """How the choice comes into effect."""
    try:
        with Daemon(settings) as daemon:
            daemon.readiness()
            return (
                f"The daemon at {daemon.url} goes on with what it was started with: stop it (Ctrl-C"
                " where it runs), and start it again; then `rondo chat`."
            )
    except DaemonNotRunningError:
        return "Start the daemon with `rondo serve`; then `rondo chat` talks with the model."
    except DaemonError as error:
        return f"{error.title}: {error.detail} `rondo doctor` tells more."


def _as_variable(value: JsonValue) -> str:
    return "" if value is None else str(value)
