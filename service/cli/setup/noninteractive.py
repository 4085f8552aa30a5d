"""The setup without questions: what was found, and a choice by flags."""

from __future__ import annotations

import os
from collections.abc import Sequence

from service.cli.chat.human_questions import can_ask
from service.cli.setup import model_menu
from service.cli.setup.found_models import look
from service.cli.setup.setup_choice import Choice, edit_for, show_edit, tried, write
from service.cli.setup.setup_questions import LeftError, ask_yes, whole_address
from service.cli.setup.wizard import find, models_of
from service.cli.terminal.download_bar import pull_with_progress
from service.cli.terminal.output import aside, out
from service.config import Settings
from service.domain.errors import ConfigurationError, InvalidInputError
from service.domain.redirects import shown
from service.llm.discovery.providers import LocalServer, OfferedModel, Provider, provider
from service.models.catalog import known_model
from service.models.machine import chosen

HOW = (
    "Run `rondo setup` at a terminal to choose; or name one:\n"
    "  rondo setup --use NAME_OR_ADDRESS --model MODEL --yes"
)


def show_found(settings: Settings, seconds: float) -> None:
    """Write what there is, and how it is chosen."""
    model_menu.show(model_menu.sections(find(settings, seconds), settings.llm), to=out())
    out().print(f"\n{HOW}")


def set_up(
    settings: Settings,
    use: str,
    *,
    model: str,
    key_env: str,
    tries: bool,
    yes: bool,
    seconds: float,
) -> bool:
    """Set up a model that is named; whether it was written.

    Args:
        settings: what is in effect.
        use: ``embedded``, a provider, a program that runs here, or an address.
        model: its name there; may be empty where there is only one.
        key_env: the variable that holds the key; empty: the provider's own.
        tries: whether it is called first.
        yes: whether it is written without asking.
        seconds: how long programs on this machine have to answer.

    Raises:
        RondoError: it cannot be used; says why. Nothing was written.
    """
    choice = _named(settings, use, model, key_env, seconds)
    if tries:
        if choice.provider == "embedded":
            pull_with_progress(settings.models_dir, choice.model, quiet=True)
        _, choice = tried(settings, choice)
    edit = edit_for(settings, choice)
    if edit.is_change and not yes:
        show_edit(edit)
        if not can_ask():
            raise InvalidInputError("nothing was written", advice="Add --yes to write it.")
        try:
            if not ask_yes("Write it?", default=True):
                raise LeftError
        except LeftError:
            aside().print("Nothing was changed.", style="dim")
            return False
        except KeyboardInterrupt:
            aside().print("\nNothing was changed.", style="dim")
            raise SystemExit(130) from None
    write(settings, choice, edit)
    return True


def _named(settings: Settings, use: str, model: str, key_env: str, seconds: float) -> Choice:
    if use.casefold() == "embedded":
        name = known_model(model or chosen().name).name
        return Choice("run by Rondo itself", name, provider="embedded")
    if (named := provider(use)) is not None:
        return _of_provider(named, model, key_env)
    if "/" not in use and ":" not in use and "." not in use:
        return _of_program(look(settings, seconds).servers, use, model)
    address = whole_address(use)
    key = _key(key_env) if key_env else ""
    place = shown(address)  # a password may stand in it
    model = model or _only_one(models_of(place, address, key).models, place).name
    return Choice(f"the server at {place}", model, address, api_key=key, api_key_env=key_env)


def _of_provider(named: Provider, model: str, key_env: str) -> Choice:
    variable = key_env or named.key_variable(os.environ) or named.key_variables[0]
    key, base_url = _key(variable), named.address(os.environ)
    if not model:
        model = _only_one(
            models_of(named.name, base_url, key, named.vendor).models, named.name
        ).name
    is_usual = named.vendor == "anthropic" and base_url == named.base_url
    address = "" if is_usual else base_url
    return Choice(named.name, model, address, named.vendor, key, variable)


def _of_program(servers: Sequence[LocalServer], use: str, model: str) -> Choice:
    for server in servers:
        if server.program.casefold() == use.casefold():
            models = {each.name: each for each in server.offers.models}
            if model:
                return model_menu.chosen_model(server, models.get(model, OfferedModel(model)))
            return model_menu.chosen_model(server, _only_one(server.offers.models, server.program))
    running = ", ".join(server.program for server in servers)
    raise InvalidInputError(
        f"no provider is called {use!r}, and no such program answers on this machine",
        advice=f"Found: {running or 'none'}. `rondo setup --json` lists all there is to choose"
        " from; an address such as http://localhost:8000/v1 can be named too.",
    )


def _key(variable: str) -> str:
    key = os.environ.get(variable, "")
    if not key:
        raise ConfigurationError(
            f"{variable} is not set, which would hold the key",
            advice=f"Set it first: export {variable}=…, or name another with --key-env.",
        )
    return key


def _only_one(models: tuple[OfferedModel, ...], place: str) -> OfferedModel:
    if len(models) == 1:
        return models[0]
    names = ", ".join(model.name for model in models[:10])
    more = f" and {len(models) - 10} more" if len(models) > 10 else ""
    raise InvalidInputError(
        f"{place} has {len(models) or 'no'} models to chat with",
        advice=f"Name one with --model: {names}{more}." if models else "Name one with --model.",
    )
