"""A model that is chosen: what it would have in ``rondo.toml``, trying it, and writing it there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue, SecretStr

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError, DaemonNotRunningError
from service.cli.settings_edit import Changes, ConfigEdit, edited, file_to_change
from service.cli.terminal.output import aside, one_line, plain
from service.cli.terminal.waiting_line import waiting
from service.config import LLMSettings, Settings, load_settings
from service.domain.errors import ConfigurationError, RondoError
from service.llm.discovery.local_programs import OLLAMA, window_now
from service.llm.discovery.trial import Trial, try_model

_LEAST_WINDOW = 2048  # of the setting
_WHAT_BELONGS_TO_A_MODEL = ("provider", "model", "base_url", "api_key", "api_key_env")
_MOST_WORDS = 70
_LITTLE_WINDOW = 16_384


@dataclass(frozen=True, slots=True)
class Choice:
    """A model at a place."""

    place: str
    """Where, in words."""
    model: str
    base_url: str = ""
    """Empty for the provider's own."""
    provider: Literal["openai", "anthropic", "embedded"] = "openai"
    api_key: str = field(default="", repr=False)
    api_key_env: str = ""
    """The variable that the key comes from, or will; empty: the key itself is written, if any."""
    context_tokens: int | None = None
    """The window that it is served with; None where nothing is told."""
    program: str = ""
    """Of a server on this machine."""

    def is_what(self, now: LLMSettings) -> bool:
        """Whether it is what is in effect."""
        if self.provider != now.effective_provider:
            return False
        return self.model == now.model and _alike(self.base_url) == _alike(now.base_url)

    def changes(self, now: LLMSettings) -> Changes:
        """What changes in the section ``llm``.

        Args:
            now: what is in effect: a window that is set there is of the model that goes.
        """
        changes: dict[str, str | int | None] = dict.fromkeys(_WHAT_BELONGS_TO_A_MODEL)
        changes["model"] = self.model
        if self.provider != "openai":
            changes["provider"] = self.provider
        if self.provider != "embedded":
            changes["base_url"] = self.base_url or None
            changes |= self._key()
        changes["context_tokens"] = self._window(now)
        return changes

    def _key(self) -> dict[str, str | None]:
        if self.api_key_env:
            return {"api_key_env": self.api_key_env}
        if self.api_key:
            return {"api_key": self.api_key}
        # Else OpenAI's key would be sent to a server that wants none.
        return {"api_key_env": "" if os.environ.get("OPENAI_API_KEY") else None}

    def _window(self, now: LLMSettings) -> int | None:
        default = LLMSettings.model_fields["context_tokens"].default
        if self.context_tokens is not None and self.context_tokens < default:
            return max(self.context_tokens, _LEAST_WINDOW)
        return now.context_tokens if self.is_what(now) and now.context_tokens != default else None

    def settings(self, now: LLMSettings) -> LLMSettings:
        """What will be in effect, so that it can be tried."""
        default = LLMSettings.model_fields["context_tokens"].default
        return now.model_copy(
            update={
                "provider": self.provider,
                "model": self.model,
                "base_url": self.base_url,
                "api_key": SecretStr(self.api_key),
                "api_key_env": self.api_key_env,
                "context_tokens": self._window(now) or default,
            }
        )


def _alike(address: str) -> str:
    """An address without what makes no difference.

    >>> _alike("http://127.0.0.1:11434/v1/")
    'http://localhost:11434/v1'
    """
    return address.rstrip("/").replace("://127.0.0.1", "://localhost", 1)


def tried(settings: Settings, choice: Choice) -> tuple[Trial, Choice]:
    """Call the model, and show what it said.

    Returns:
        What came of it, and the choice with what is known by now.

    Raises:
        RondoError: it does not answer; says why.
        KeyboardInterrupt: Ctrl-C.
    """
    import anyio

    with waiting(f"Trying {choice.model}; Ctrl-C stops"):
        trial = anyio.run(try_model, settings, choice.settings(settings.llm))
        if choice.program == OLLAMA:  # now that it is loaded
            window = anyio.run(window_now, choice.base_url, choice.model)
            choice = replace(choice, context_tokens=window or choice.context_tokens)
    _show_trial(trial, choice)
    return trial, choice


def show_failure(error: RondoError) -> None:
    """Why a model cannot be used, and what to do."""
    aside().print(f"\n{plain(error.problem().in_words())}", style="red")


def _show_trial(trial: Trial, choice: Choice) -> None:
    words = one_line(trial.words, _MOST_WORDS)
    aside().print(f"\nIt answers, in {trial.seconds:.1f} s: “{words}”", style="green")
    if trial.calls_tools:
        aside().print("It calls tools.", style="green")
    elif trial.without_tools:
        aside().print(f"It takes no tools: {plain(trial.without_tools)}", style="yellow")
    else:
        aside().print("It did not call the tool that it was offered.", style="yellow")
    if choice.context_tokens is not None and choice.context_tokens < _LITTLE_WINDOW:
        _show_window(choice, choice.context_tokens)


def _show_window(choice: Choice, window: int) -> None:
    more = ""
    if choice.program == OLLAMA:
        more = " For more, start Ollama with OLLAMA_CONTEXT_LENGTH=32768, and run this again."
    aside().print(
        f"It is served with a window of {window:,} tokens; what is longer is summarised.{more}",
        style="dim",
    )


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
    aside().print(_what_is_next(settings))


def notes(settings: Settings, choice: Choice) -> Iterator[str]:
    """What could keep the choice from being what answers, and what goes along with it."""
    changes = choice.changes(settings.llm)
    for variable in _overriding(changes, os.environ):
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


def _overriding(changes: Changes, environment: Mapping[str, str]) -> list[str]:
    """The variables that say something else than what is written.

    >>> _overriding({"model": "new", "base_url": None}, {"RONDO_LLM__MODEL": "old"})
    ['RONDO_LLM__MODEL']
    """
    given = {name.upper(): value for name, value in environment.items() if value}
    variables = ["RONDO_LLM"] if "RONDO_LLM" in given else []
    for name, value in changes.items():
        variable = f"RONDO_LLM__{name.upper()}"
        if variable in given and given[variable] != _as_variable(value):
            variables.append(variable)
    return variables


def _what_is_next(settings: Settings) -> str:
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
