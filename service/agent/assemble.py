"""From settings to an agent: the one place that knows which part goes where."""

from __future__ import annotations

from service.agent.agent import Agent, create_agent
from service.agent.brain import Limits
from service.agent.consolidation.options import ConsolidationOptions
from service.agent.llm import create_llm
from service.agent.options import AgentOptions
from service.agent.plugins import load_executors, load_hooks
from service.agent.routing.options import RouterOptions
from service.agent.workbench import Compaction
from service.config import PriceSettings, Settings
from service.domain.errors import ConfigurationError
from service.domain.usage import Prices
from service.memory.embedders import create_embedder
from service.memory.embedders.query_cache import QueryCache
from service.memory.memory import Memory
from service.memory.rerankers import create_reranker
from service.tools.approval import ApprovalPolicy
from service.tools.builtins import builtin_tools
from service.tools.registry import ToolRegistry


def agent_from_settings(settings: Settings) -> Agent:
    """An agent as configured. Cheap: nothing is opened or loaded before ``async with``.

    Raises:
        ConfigurationError: the settings do not fit together.
    """
    embedder = create_embedder(settings)
    memory = Memory(
        settings.data_dir,
        QueryCache(embedder) if embedder else None,
        chroma=settings.memory,
        reranker=create_reranker(settings),
    )
    tools = ToolRegistry()
    for tool in builtin_tools(settings, memory.long_term, memory.load).tools:
        tools.register(tool)
    return create_agent(create_llm(settings), tools, memory, options_from_settings(settings))


def options_from_settings(settings: Settings) -> AgentOptions:
    """How an agent behaves, as configured.

    Raises:
        ConfigurationError: code that the settings name cannot be loaded, or they do not fit
            together.
    """
    return AgentOptions(
        limits=Limits(
            max_iterations=settings.agent.max_iterations,
            max_consecutive_tool_failures=settings.agent.max_consecutive_tool_failures,
            max_repeated_calls=settings.agent.max_repeated_calls,
            budget_tokens=settings.agent.budget_tokens,
            budget_cost=settings.agent.budget_cost,
        ),
        auto_enhance=settings.agent.auto_enhance,
        system_prompt=settings.agent.system_prompt,
        auto_classify=settings.agent.auto_classify,
        linger_seconds=settings.agent.linger_seconds,
        recall_tokens=settings.agent.recall_tokens,
        compaction=_compaction(settings),
        answer_tokens=settings.llm.max_tokens,
        max_retries=settings.llm.max_retries,
        router=_router(settings),
        executors=load_executors(settings.agent.executors),
        hooks=load_hooks(settings.agent.hooks),
        hook_timeout_seconds=settings.agent.hook_timeout_seconds,
        consolidation=_consolidation(settings),
        prices=_prices(settings.llm.prices),
        approval=ApprovalPolicy(mode=settings.tools.approval, per_tool=settings.tools.approval_for),
    )


def _compaction(settings: Settings) -> Compaction:
    chosen = settings.agent.compaction
    if chosen != "auto":
        return chosen
    return "extract" if settings.llm.effective_provider == "embedded" else "model"


def _router(settings: Settings) -> RouterOptions:
    chosen = settings.router
    use_llm = chosen.use_llm
    if use_llm == "auto":
        use_llm = settings.llm.effective_provider != "embedded"
    return RouterOptions(
        use_llm=use_llm,
        llm_timeout_seconds=chosen.llm_timeout_seconds,
        sure_above=chosen.sure_above,
        ask_below=chosen.ask_below,
        split_matters=chosen.split_matters,
    )


def _consolidation(settings: Settings) -> ConsolidationOptions | None:
    chosen = settings.memory.consolidation
    if not chosen.enabled:
        return None
    if settings.llm.effective_provider == "embedded":
        raise ConfigurationError(
            "memory.consolidation.enabled is set, but only the embedded model answers, and notes of"
            " its would hold facts that nobody told it",
            advice="Set llm.base_url and llm.api_key to a model at an endpoint, or"
            " memory.consolidation.enabled = false.",
        )
    return ConsolidationOptions(
        idle_seconds=chosen.idle_seconds,
        max_tokens_per_day=chosen.max_tokens_per_day,
        min_new_segments=chosen.min_new_segments,
    )


def _prices(prices: PriceSettings) -> Prices | None:
    if prices.input is None or prices.output is None:
        return None
    return Prices(
        input=prices.input,
        output=prices.output,
        cached_input=prices.cached_input,
        currency=prices.currency,
    )
