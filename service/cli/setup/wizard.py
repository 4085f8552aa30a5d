"""Leading a person to a working model: look, choose, try, write."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio

from service.cli.setup import model_menu
from service.cli.setup.found_models import Found, look
from service.cli.setup.model_menu import pick, size_in_words
from service.cli.setup.setup_choice import Choice, edit_for, show_edit, show_failure, tried, write
from service.cli.setup.setup_questions import (
    LeftError,
    ask,
    ask_address,
    ask_key,
    ask_where_the_key_stays,
    ask_yes,
    candidates,
)
from service.cli.terminal.download_bar import pull_with_progress
from service.cli.terminal.output import aside, plain
from service.cli.terminal.waiting_line import waiting
from service.config import Settings
from service.domain.errors import LLMError, LLMStatusError, RondoError
from service.domain.redirects import shown
from service.llm.discovery.listing import list_models
from service.llm.discovery.local_programs import SECONDS
from service.llm.discovery.providers import KeyFound, LocalServer, ModelList, OfferedModel, Provider
from service.llm.remote.endpoints import DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL, Vendor
from service.models.catalog import known_model
from service.models.weight_store import ModelStore

_FIRST_MODELS = {"openai": DEFAULT_OPENAI_MODEL, "anthropic": DEFAULT_ANTHROPIC_MODEL}
_LEFT = "Nothing was changed."


def run_wizard(settings: Settings, *, seconds: float = SECONDS) -> bool:
    """Ask until a model is written, or the person leaves; whether one was written.

    Args:
        settings: what is in effect.
        seconds: how long servers on this machine have to answer.

    Raises:
        RondoError: the file cannot be read or written.
        SystemExit: 130 after Ctrl-C; that nothing was changed has been said.
    """
    try:
        return _run(settings, find(settings, seconds))
    except LeftError:
        aside().print(_LEFT, style="dim")
        return False
    except KeyboardInterrupt:
        aside().print(f"\n{_LEFT}", style="dim")
        raise SystemExit(130) from None


def find(settings: Settings, seconds: float) -> Found:
    """What there is, with a word while it is looked for."""
    with waiting("Looking for models"):
        return look(settings, seconds)


def models_of(name: str, base_url: str, key: str, vendor: Vendor = "openai") -> ModelList:
    """Ask an endpoint for its models, with a word meanwhile.

    Raises:
        LLMError: it does not tell them.
    """

    async def listed() -> ModelList:
        return await list_models(base_url, key, vendor=vendor)

    with waiting(f"Asking {name} for its models"):
        return anyio.run(listed)


def _run(settings: Settings, choices: Found) -> bool:
    sections = model_menu.sections(choices, settings.llm)
    if choices.in_use:
        aside().print(f"In use now: {plain(choices.in_use)}.", style="dim")
    while True:
        model_menu.show(sections)
        entry = model_menu.ask_for_entry(sections)
        try:
            choice = _typed() if entry is None else _resolved(entry.means)
        except RondoError as error:
            show_failure(error)
            continue
        if choice is None or not _is_ready(settings, choice):
            continue
        checked = _tried_until_settled(settings, choice)
        if checked is None:
            continue
        checked = _with_place_of_key(checked)
        edit = edit_for(settings, checked)
        if edit.is_change:
            show_edit(edit)
            if not ask_yes("Write it?", default=True):
                raise LeftError
        write(settings, checked, edit)
        return True


def _resolved(means: Choice | LocalServer | KeyFound) -> Choice | None:
    """The model that is meant, asked for where there are several; None to go back."""
    match means:
        case Choice():
            return means
        case LocalServer(wants_key=True):
            return _at(means.program, means.base_url, ask_key(means.base_url))
        case LocalServer():
            model = pick(means.offers.models)
            return model_menu.chosen_model(means, model) if model else None
        case KeyFound(provider, variable, base_url):
            key = os.environ[variable]
            return _of_provider(provider, base_url, key, variable)


def _typed() -> Choice | None:
    said = ask_address()
    match said:
        case None:
            return None
        case Provider():
            base_url = said.address(os.environ)
            variable = said.key_variable(os.environ)
            if variable:
                return _of_provider(said, base_url, os.environ[variable], variable)
            key = ask_key(said.name)
            return _of_provider(said, base_url, key, "")
    key = ask_key(shown(said))
    first, *others = candidates(said)
    try:
        return _at(f"the server at {shown(first)}", first, key)
    except LLMError as error:
        if isinstance(error, LLMStatusError) and error.status in (401, 403):
            raise
        for address in others:
            return _at(f"the server at {shown(address)}", address, key)
        raise


def _of_provider(provider: Provider, base_url: str, key: str, variable: str) -> Choice | None:
    default = _FIRST_MODELS.get(provider.id, "")
    model = _asked_for(provider.name, base_url, key, default, provider.vendor)
    if model is None:
        return None
    is_usual = provider.vendor == "anthropic" and base_url == provider.base_url
    return Choice(
        provider.name,
        model.name,
        "" if is_usual else base_url,
        provider.vendor,
        key,
        variable,
        model.context_tokens,
    )


def _at(place: str, base_url: str, key: str) -> Choice | None:
    model = _asked_for(place, base_url, key, "")
    if model is None:
        return None
    return Choice(place, model.name, base_url, api_key=key, context_tokens=model.context_tokens)


def _asked_for(
    place: str, base_url: str, key: str, default: str, vendor: Vendor = "openai"
) -> OfferedModel | None:
    models = models_of(place, base_url, key, vendor).models
    if models:
        return pick(models, default=default)
    aside().print(f"{plain(place)} lists no model to chat with.", style="yellow")
    name = ask("Name of a model (Enter goes back) › ")
    return OfferedModel(name) if name else None


def _is_ready(settings: Settings, choice: Choice) -> bool:
    """Fetch a model of our own where it is not here yet; False to choose another."""
    if choice.provider != "embedded":
        return True
    store = ModelStore(settings.models_dir)
    if store.path(choice.model) is not None:
        return True
    size = size_in_words(known_model(choice.model).size)
    if not ask_yes(f"{choice.model} is not here yet. Fetch it now ({size})?", default=True):
        return False
    try:
        pull_with_progress(settings.models_dir, choice.model)
    except RondoError as error:
        show_failure(error)
        return False
    return True


def _tried_until_settled(settings: Settings, choice: Choice) -> Choice | None:
    """The choice, once it has answered or the person wants it all the same; None for another."""
    while True:
        try:
            trial, choice = tried(settings, choice)
        except KeyboardInterrupt:
            aside().print("\nStopped.", style="dim")
        except RondoError as error:
            show_failure(error)
        else:
            if trial.calls_tools or choice.provider == "embedded":
                return choice
            words = "Without tools it can look up nothing, and do nothing. Use it all the same?"
            return choice if ask_yes(words, default=False) else None
        said = ""
        while said not in ("c", "t", "w"):
            said = ask("[c]hoose another, [t]ry again, [w]rite it all the same, [q]uit › ").lower()
            said = said or "c"
        if said != "t":
            return choice if said == "w" else None


def _with_place_of_key(choice: Choice) -> Choice:
    """The choice, with where its key stays: one that was typed is nowhere yet."""
    if not choice.api_key or choice.api_key_env:
        return choice
    words = "".join(c if c.isascii() and c.isalnum() else "_" for c in choice.place).upper()
    suggested = f"{words.strip('_').split('_')[0]}_API_KEY"
    if not choice.base_url or "server" in choice.place:
        suggested = "LLM_API_KEY"
    variable = ask_where_the_key_stays(suggested, os.environ)
    return replace(choice, api_key_env=variable)
