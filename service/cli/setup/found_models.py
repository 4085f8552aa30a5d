"""What there is to choose from: on this machine, in its environment, and in our own catalogue."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from service.cli.daemon.daemon_requests import base_url
from service.cli.setup.setup_choice import Choice
from service.config import LLMSettings, Settings
from service.domain.redirects import shown
from service.llm.discovery.local_programs import find_servers
from service.llm.discovery.providers import KeyFound, LocalServer, keys_found
from service.llm.model_descriptions import model_in_words
from service.models.catalog import CATALOG, KnownModel
from service.models.machine import Choice as MachineChoice
from service.models.machine import chosen, shortage
from service.models.weight_store import ModelStore


@dataclass(frozen=True, slots=True)
class Own:
    """A model of the catalogue, which Rondo runs itself."""

    model: KnownModel
    is_here: bool
    is_default: bool
    """Whether it is what runs where nothing is set."""
    shortage: str
    """Why this machine does not carry it; empty where it does."""

    @property
    def choice(self) -> Choice:
        """It, chosen."""
        return Choice("run by Rondo itself", self.model.name, provider="embedded")


@dataclass(frozen=True, slots=True)
class Found:
    """All of it."""

    servers: tuple[LocalServer, ...]
    keys: tuple[KeyFound, ...]
    own: tuple[Own, ...]
    in_use: str | None
    """The model that the settings name already, in words; None where they name none."""


def look(settings: Settings, seconds: float) -> Found:
    """Look. Nobody but this machine is asked.

    Args:
        settings: what is in effect.
        seconds: how long servers have to answer.
    """
    import anyio

    async def local_servers() -> list[LocalServer]:
        return await find_servers(seconds=seconds)

    servers = anyio.run(local_servers)
    ours = base_url(settings)
    port = ours.rpartition(":")[2]
    others = (each for each in servers if not each.base_url.startswith(f"http://localhost:{port}/"))
    machine = chosen()
    store = ModelStore(settings.models_dir)
    own = [
        Own(each, _is_here(store, each.name), each.name == machine.name, _short(each, machine))
        for each in CATALOG
    ]
    return Found(
        tuple(others),
        tuple(keys_found(os.environ)),
        tuple(own),
        model_in_words(settings) if is_configured(settings.llm) else None,
    )


def is_configured(llm: LLMSettings) -> bool:
    """Whether somebody has said which model answers, by a file, a variable or a flag.

    >>> is_configured(LLMSettings(temperature=0.2)), is_configured(LLMSettings(model="m"))
    (False, True)
    """
    return llm.effective_provider != "embedded" or bool(
        llm.model_fields_set & {"provider", "model"}
    )


def as_json(choices: Found, settings_file: str) -> dict[str, Any]:
    """All of it for programs. No key is in it."""
    return {
        "settings_file": settings_file,
        "in_use": choices.in_use,
        "servers": [
            {
                "program": each.program,
                "version": each.version,
                "base_url": each.base_url,
                "wants_key": each.wants_key,
                "models": [
                    {
                        "name": model.name,
                        "note": model.note,
                        "bytes": model.size,
                        "tools": model.tools,
                        "context_tokens": model.context_tokens,
                    }
                    for model in each.offers.models
                ],
                "other_models": each.offers.others,
            }
            for each in choices.servers
        ],
        "keys": [
            {
                "provider": each.provider.id,
                "name": each.provider.name,
                "variable": each.variable,
                "base_url": shown(each.base_url),
            }
            for each in choices.keys
        ],
        "embedded": [
            {
                "name": each.model.name,
                "description": each.model.description,
                "bytes": each.model.size,
                "here": each.is_here,
                "default": each.is_default,
                "fits": not each.shortage,
            }
            for each in choices.own
        ],
    }


def _short(model: KnownModel, machine: MachineChoice) -> str:
    return shortage(model.name, machine.machine) or ""


def _is_here(store: ModelStore, name: str) -> bool:
    try:
        return store.path(name) is not None
    except OSError:  # `rondo doctor` says what is wrong with it
        return False
