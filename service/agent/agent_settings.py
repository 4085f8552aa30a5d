"""From settings to what an agent is made of: models, how it behaves, and its memory."""

from __future__ import annotations

from pathlib import Path

from service.agent.agent_options import AgentOptions
from service.agent.consolidation.consolidation_worker import ConsolidationOptions
from service.agent.plugins import load_brain, load_executors, load_hooks
from service.config import LLMSettings, PriceSettings, Settings
from service.domain.errors import ConfigurationError
from service.domain.spend import SpendCaps
from service.domain.usage import Prices
from service.llm.factory import create_llm
from service.llm.generate import Backoff
from service.llm.named_models import ANSWER_TOKENS, NamedModel
from service.loop.brain import Limits
from service.loop.executor_deps import Compaction
from service.memory.embedders import create_embedder
from service.memory.embedders.query_cache import QueryCache
from service.memory.memory import Memory
from service.memory.rerankers import create_reranker
from service.routing.routing_options import RouterOptions
from service.tools.approval import ApprovalPolicy


def memory_from_settings(settings: Settings, folder: str | Path | None = None) -> Memory:
    """A memory as configured, closed.

    Args:
        settings: which embedder, which vector index, which reranker.
        folder: where it is kept; None: the configured data folder.

    Raises:
        ConfigurationError: the settings name no embedder or reranker that there is.
    """
    embedder = create_embedder(settings)
    return Memory(
        settings.data_dir if folder is None else folder,
        QueryCache(embedder) if embedder else None,
        chroma=settings.memory,
        reranker=create_reranker(settings),
    )


def models_from_settings(settings: Settings) -> dict[str, NamedModel]:
    """The models that a message can name.

    Raises:
        ConfigurationError: one of them cannot be made.
    """
    models = {}
    for name in settings.models:
        llm = settings.of_model(name)
        try:
            own = settings.models[name].model_fields_set & {"provider", "base_url"}
            made = create_llm(settings, llm, configured_as=name if own else "")
        except ConfigurationError as error:
            raise ConfigurationError(
                f"the model {name}: {error.detail}", advice=error.advice
            ) from error
        models[name] = NamedModel(
            made,
            prices=_prices(llm.prices),
            answer_tokens=llm.max_tokens or ANSWER_TOKENS,
            max_retries=llm.max_retries,
            backoff=_backoff(llm),
            fallback=llm.fallback,
        )
    return models


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
            max_continuations=_continuations(settings),
            budget_tokens=settings.agent.budget_tokens,
            budget_cost=settings.agent.budget_cost,
        ),
        auto_enhance=settings.agent.auto_enhance,
        auto_enhance_prompt=settings.agent.auto_enhance_prompt,
        system_prompt=settings.agent.system_prompt,
        system_prompt_mode=settings.agent.system_prompt_mode,
        auto_classify=settings.agent.auto_classify,
        linger_seconds=settings.agent.linger_seconds,
        recall_tokens=settings.agent.recall_tokens,
        compaction=_compaction(settings),
        answer_tokens=settings.llm.max_tokens or ANSWER_TOKENS,
        max_retries=settings.llm.max_retries,
        backoff=_backoff(settings.llm),
        fallback=settings.llm.fallback,
        router=_router(settings),
        brain=load_brain(settings.agent.brain),
        executors=load_executors(settings.agent.executors),
        hooks=load_hooks(settings.agent.hooks),
        hook_timeout_seconds=settings.agent.hook_timeout_seconds,
        consolidation=_consolidation(settings),
        prices=_prices(settings.llm.prices),
        spend=SpendCaps(**settings.spend.model_dump()),
        approval=ApprovalPolicy(mode=settings.tools.approval, per_tool=settings.tools.approval_for),
    )


def _continuations(settings: Settings) -> int:
    chosen = settings.agent.max_continuations
    if chosen is not None:
        return chosen
    return 0 if settings.llm.effective_provider == "embedded" else Limits().max_continuations


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
        unsure_below=chosen.unsure_below,
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


def _backoff(llm: LLMSettings) -> Backoff:
    return Backoff(
        base_seconds=llm.retry_base_seconds,
        max_seconds=llm.retry_max_seconds,
        longest_wait_seconds=llm.retry_longest_wait_seconds,
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
