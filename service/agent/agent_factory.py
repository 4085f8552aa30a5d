"""Putting an agent together: of parts that are given, or as the settings describe it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from service.agent.agent import Agent
from service.agent.agent_options import AgentOptions
from service.agent.agent_settings import (
    memory_from_settings,
    models_from_settings,
    options_from_settings,
)
from service.agent.plugins import load_tools
from service.config import Settings, load_settings
from service.config_sections import ApprovalMode
from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import ConfigurationError
from service.llm.factory import create_llm
from service.llm.named_models import Models, NamedModel
from service.llm.protocol import LLM
from service.llm.spending.worst_case import check_prices
from service.loop.brain import Brain
from service.loop.custom_brain import check_brain
from service.loop.execution import Executor
from service.loop.executors.custom_executors import check_executors
from service.memory.memory import Memory
from service.tools.builtins import ToolOffer, builtin_tools
from service.tools.builtins.tool_search import tool_search_tool
from service.tools.protocol import Tool
from service.tools.registry import ToolRegistry


def create_agent(
    llm: LLM | None = None,
    tools: ToolRegistry | Iterable[Tool | Callable[..., object]] = (),
    memory: Memory | str | Path | None = None,
    options: AgentOptions | None = None,
    *,
    models: Mapping[str, NamedModel] | None = None,
    brain: Brain | None = None,
    executors: Mapping[InstructionKind, Executor] | None = None,
) -> Agent:
    """Put an agent together. It works inside ``async with``; nothing is opened or loaded before.

    Args:
        llm: answers where no message names one of the `models`. None: the model that the settings
            name (``rondo.toml``, ``RONDO_*``, ``OPENAI_API_KEY`` and its like); without any, a
            small one on this machine, which is fetched at first.
        tools: what the model may call: made by `tool`, or plain functions with types and a
            docstring. The built-in tools are not among them, see `agent_from_settings`.
        memory: an own one; or the folder to keep it in, with the embedder of the settings; None:
            the data folder of the settings, which is the daemon's, too.
        options: how it behaves. None: the defaults, or as the settings say where `llm` is None.
        models: others that a message can name; see also `AgentOptions.fallback`.
        brain: decides instead of the built-in one; goes before that of the options.
        executors: do what the brain says, instead of the built-in ones; before those of the
            options.

    Raises:
        ConfigurationError: the settings cannot be used; two tools have the same name, or one is no
            tool; one of the hooks is not an instance of `Hooks`; the brain or an executor is none,
            or there is no such kind of instruction; `llm` or a fallback is no model; or a cap on
            spending is in money, and a model has no prices.
    """
    if brain is not None:
        check_brain(brain)
    check_executors(executors or {})
    if not isinstance(tools, ToolRegistry):
        tools = ToolRegistry(tools)
    if llm is not None and not hasattr(llm, "stream"):
        raise ConfigurationError(
            f"{llm!r:.80} is no model",
            advice='Give one such as OpenAIModel("gpt-5-mini"), or None for the configured one.',
        )
    if llm is None:
        settings = load_settings()
        llm = create_llm(settings)
        if options is None:
            options = options_from_settings(settings)
            models = {**models_from_settings(settings), **(models or {})}
    if not isinstance(memory, Memory):
        memory = memory_from_settings(load_settings(), memory)
    chosen = options or AgentOptions()
    default = NamedModel(
        llm,
        prices=chosen.prices,
        answer_tokens=chosen.answer_tokens,
        max_retries=chosen.max_retries,
        backoff=chosen.backoff,
        fallback=tuple(chosen.fallback),
    )
    all_models = Models(default, models or {})
    check_prices(all_models.by_name, chosen.spend)
    return Agent(all_models, tools, memory, chosen, brain or chosen.brain, executors or {})


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
    offer = builtin_tools(
        settings, memory.long_term, memory.load, memory.files, memory.journal.schedules
    )
    own = load_tools(settings.tools.modules, entry_points=settings.tools.entry_points)
    registry = ToolRegistry(offer.tools, unavailable={**offer.withheld, **own.unavailable})
    for where, tool in own.tools:
        _register(registry, tool, where)
    for tool in tools:
        registry.register(tool)
    _add_servers(registry, settings)
    return create_agent(
        llm or create_llm(settings),
        registry,
        memory,
        _asking_as(options_from_settings(settings), offer),
        models=models_from_settings(settings),
    )


def _register(registry: ToolRegistry, tool: Tool | Callable[..., object], where: str) -> None:
    try:
        registry.register(tool)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.detail}", advice=error.advice) from error


def _add_servers(registry: ToolRegistry, settings: Settings) -> None:
    if not settings.tools.mcp:
        return
    from service.tools.mcp.server_connection import ServerConnection  # slow

    registry.register(tool_search_tool(registry, settings.tools.mcp))
    for name, server in settings.tools.mcp.items():
        registry.sources.append(ServerConnection(name, server, registry, settings.data_dir))


def _asking_as(options: AgentOptions, offer: ToolOffer) -> AgentOptions:
    """With what the built-in tools ask for: some of it the settings can change, some not."""
    approval = options.approval
    declared = offer.remembers_no_yes if approval.mode == "tool-declared" else ()
    before: dict[str, ApprovalMode] = dict.fromkeys(declared, "always")
    always: dict[str, ApprovalMode] = dict.fromkeys(offer.asks_each_time, "always")
    per_tool = {**before, **approval.per_tool, **always}
    return replace(options, approval=replace(approval, per_tool=per_tool))
