"""The language model that the settings name, as a client that is ready to be asked."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from service.config import LLMSettings, Settings
from service.domain.errors import ConfigurationError, NotFoundError
from service.llm.protocol import LLM, LLMStatus
from service.llm.remote.endpoints import DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL

__all__ = ["LLM", "LLMStatus", "create_llm"]

EMBEDDED_MAX_TOKENS = 512


def create_llm(
    settings: Settings, llm: LLMSettings | None = None, *, configured_as: str = ""
) -> LLM:
    """The language model that the settings name. Cheap: what is heavy is loaded by the first call.

    Args:
        settings: all settings.
        llm: those of one of its other models, see `Settings.of_model`; None: of ``llm`` itself.
        configured_as: the other model's name, where its endpoint is its own.

    ``llm.provider`` decides; ``auto`` is an endpoint where a key or an address is given, else
    Anthropic where its key is there, else the embedded model. That one is bounded to answers of
    512 tokens, whatever ``llm.max_tokens`` allows above that, as small models run on.

    Raises:
        ConfigurationError: no embedded model has that name, the script cannot be read, Anthropic's
            SDK is not installed, or a temperature is set for it.
    """
    llm = llm or settings.llm
    match llm.effective_provider:
        case "openai":
            from service.llm.openai.openai_compatible import OpenAIModel

            return OpenAIModel(
                model=llm.model or DEFAULT_OPENAI_MODEL,
                base_url=llm.base_url,
                api_key=llm.api_key.get_secret_value(),
                temperature=llm.temperature,
                max_tokens=llm.max_tokens,
                context_tokens=llm.context_tokens,
                timeout_seconds=llm.timeout_seconds,
                max_call_seconds=llm.max_call_seconds,
                takes_images=llm.images,
                configured_as=configured_as,
                api_key_env=llm.api_key_env,
            )
        case "anthropic":
            return _anthropic(llm, configured_as)
        case "embedded":
            from service.llm.embedded.embedded_model import EmbeddedLLM
            from service.llm.embedded.prompt_states import FOLDER
            from service.llm.model_descriptions import embedded_model
            from service.models.weight_store import ModelStore

            try:
                return EmbeddedLLM(
                    store=ModelStore(settings.models_dir),
                    name=embedded_model(settings, llm),
                    max_tokens=min(llm.max_tokens or EMBEDDED_MAX_TOKENS, EMBEDDED_MAX_TOKENS),
                    temperature=llm.temperature,
                    states_dir=settings.data_dir / FOLDER,
                )
            except NotFoundError as error:
                raise ConfigurationError(
                    f"llm.model: {error.detail}", advice=error.advice
                ) from error
        case "scripted":
            from service.llm.scripted.script_language import Script
            from service.llm.scripted.scripted_model import ScriptedModel

            return (
                ScriptedModel.from_file(Path(llm.model)) if llm.model else ScriptedModel(Script())
            )
        case provider:
            assert_never(provider)


def _anthropic(llm: LLMSettings, configured_as: str) -> LLM:
    from service.llm.anthropic.anthropic_messages import AnthropicModel

    if llm.temperature is not None:
        raise ConfigurationError(
            "llm.temperature is set, and Anthropic's API takes none",
            advice="Remove it (RONDO_LLM__TEMPERATURE, or from rondo.toml).",
        )
    return AnthropicModel(
        model=llm.model or DEFAULT_ANTHROPIC_MODEL,
        base_url=llm.base_url,
        api_key=llm.api_key.get_secret_value(),
        max_tokens=llm.max_tokens,
        thinking_tokens=llm.thinking_tokens,
        context_tokens=llm.context_tokens,
        timeout_seconds=llm.timeout_seconds,
        max_call_seconds=llm.max_call_seconds,
        takes_images=llm.images,
        configured_as=configured_as,
        api_key_env=llm.api_key_env,
    )
