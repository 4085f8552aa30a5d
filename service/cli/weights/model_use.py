"""`rondo models use`: another model that runs on this machine."""

from __future__ import annotations

import os

from service.cli.daemon.daemon_settings import daemon_settings
from service.cli.settings_edit import Changes, edited, file_to_change
from service.cli.terminal.download_bar import pull_with_progress
from service.cli.terminal.output import aside, plain
from service.config import Settings, load_settings
from service.llm.model_descriptions import embedded_model, model_in_words
from service.models.catalog import known_model
from service.models.fetch import megabytes
from service.models.machine import chosen, read_machine, shortage
from service.models.weight_store import ModelStore

AUTO = "auto"


def use_model(settings: Settings, name: str, *, pull: bool) -> None:
    """Set a model in the file of settings, and say what becomes of it.

    Args:
        settings: as they are in effect.
        name: of the catalogue, or `AUTO`: the machine's choice.
        pull: fetch it first where it is not here; a fetch that fails changes nothing.

    Raises:
        NotFoundError: no model of that name is known.
        ModelStoreError: it could not be fetched.
        ConfigurationError: the file cannot be read or written.
    """
    chosen_name = chosen().name if name == AUTO else name
    _tell_of(settings, chosen_name)
    if pull:
        pull_with_progress(settings.models_dir, chosen_name, quiet=True)
    changes: Changes = {"model": None if name == AUTO else name}
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
