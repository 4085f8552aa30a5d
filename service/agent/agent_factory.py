"""The agent that the settings describe: the same as the daemon's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from service.agent.agent import Agent, create_agent
from service.agent.agent_settings import (
    memory_from_settings,
    models_from_settings,
    options_from_settings,
)
from service.config import Settings, load_settings
from service.llm.factory import create_llm
from service.llm.protocol import LLM
from service.tools.builtins import builtin_tools
from service.tools.protocol import Tool
from service.tools.registry import ToolRegistry


def agent_from_settings(
    settings: Settings | None = None,
    *,
    llm: LLM | None = None,
    tools: Iterable[Tool | Callable[..., object]] = (),
) -> Agent:
    """The agent that the daemon would run: configured, with the built-in tools.

    Cheap: nothing is opened or loaded before ``async with``.

    Args:
        settings: all of them; None: those in effect, see `load_settings`.
        llm: what answers where no message names a model; None: as configured.
        tools: offered beside the built-in ones.

    Raises:
        ConfigurationError: the settings do not fit together, or two tools have the same name.
    """
    settings = settings or load_settings()
    memory = memory_from_settings(settings)
    registry = ToolRegistry(builtin_tools(settings, memory.long_term, memory.load).tools)
    for tool in tools:
        registry.register(tool)
    return create_agent(
        llm or create_llm(settings),
        registry,
        memory,
        options_from_settings(settings),
        models=models_from_settings(settings),
    )
