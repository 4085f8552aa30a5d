"""What is found: servers on this machine, keys in the environment, and the models of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.llm.discovery.providers import PROVIDERS, Provider


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that can be chatted with, as far as its server tells."""

    name: str
    note: str = ""
    """What else is told of it, such as its number of parameters."""
    size: int | None = None
    """Bytes on disk."""
    tools: bool | None = None
    """Whether it can call tools; None where nothing is told."""
    context_tokens: int | None = None
    """The window that it is served with; None where nothing is told."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models of a server."""

    models: tuple[OfferedModel, ...] = ()
    others: int = 0
    """How many more there are that are not for chatting: they embed, draw or listen."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server on this machine that offers models."""

    program: str
    """Such as ``Ollama``; where it does not tell, "A server" with what usually listens there."""
    base_url: str
    version: str = ""
    offers: ModelList = ModelList()
    wants_key: bool = False
    """Whether it tells nothing without a key."""


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A key in the environment. Which models it opens is not known before the provider is asked."""

    provider: Provider
    variable: str
    base_url: str


def keys_found(environment: Mapping[str, str]) -> list[KeyFound]:
    """The providers for which a key is set. Nobody is asked, and no key is kept."""
    return [
        KeyFound(each, variable, each.address(environment))
        for each in PROVIDERS
        if (variable := each.key_variable(environment)) is not None
    ]
