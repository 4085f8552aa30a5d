"""Language models behind one protocol.

====================  ============================================================================
`openai_compatible`   an endpoint that speaks chat completions, near or far
`anthropic_messages`  a Claude model by Anthropic's own API; needs the extra ``anthropic``
`embedded`            a small model in a process of our own: the default, without any account
`scripted`            answers from a script: tests, demonstrations, benchmarks
`chaos`               makes another model unreliable, for tests
====================  ============================================================================

The rest are their parts. Of endpoints: `remote` (what their clients have in common), `endpoints`,
`sdk_errors`, `context_words`, `answer_bound`, `reading`; `chunks` and `think_tags` (what OpenAI's
kind streams), `wire` (what it is sent); `anthropic_events`, `anthropic_wire`, `anthropic_thinking`.
Of the embedded model: `tool_adapter`, `action_schema`, `action_reader`, `json_text`,
`demonstrations` (tools for a model that knows none), `embedded_process`, `embedded_server`. And
`script`, the language of scripts.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from service.agent.llm.protocol import LLM, LLMStatus
from service.config import LLMSettings, Settings
from service.domain.errors import ConfigurationError, NotFoundError

__all__ = ["LLM", "LLMStatus", "create_llm"]

DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"
DEFAULT_ANTHROPIC_MODEL = "claude-haiku-5-5"


def create_llm(settings: Settings) -> LLM:
    """The language model that the settings name. Cheap: what is heavy is loaded by the first call.

    ``llm.provider`` decides; ``auto`` is an endpoint where a key or an address is given, else
    Anthropic where its key is there, else the embedded model. That one is bounded to answers of
    512 tokens, whatever ``llm.max_tokens`` allows above that, as small models run on.

    Raises:
        ConfigurationError: no embedded model has that name, the script cannot be read, Anthropic's
            SDK is not installed, or a temperature is set for it.
    """
    llm = settings.llm
    match llm.effective_provider:
        case "openai":
            from service.agent.llm.openai_compatible import OpenAICompatibleLLM

            return OpenAICompatibleLLM(
                model=llm.model or DEFAULT_OPENAI_MODEL,
                base_url=llm.base_url,
                api_key=llm.api_key.get_secret_value(),
                temperature=llm.temperature,
                max_tokens=llm.max_tokens,
                context_tokens=llm.context_tokens,
                timeout_seconds=llm.timeout_seconds,
            )
        case "anthropic":
            return _anthropic(llm)
        case "embedded":
            from service.agent.llm.embedded import EmbeddedLLM
            from service.models.catalog import DEFAULT_MODEL
            from service.models.store import ModelStore

            try:
                return EmbeddedLLM(
                    store=ModelStore(settings.models_dir),
                    name=llm.model or DEFAULT_MODEL,
                    max_tokens=min(llm.max_tokens, 512),
                    temperature=llm.temperature,
                )
            except NotFoundError as error:
                raise ConfigurationError(
                    f"llm.model: {error.detail}", advice=error.advice
                ) from error
        case "scripted":
            from service.agent.llm.script import Script
            from service.agent.llm.scripted import ScriptedLLM

            return ScriptedLLM.from_file(Path(llm.model)) if llm.model else ScriptedLLM(Script())
        case provider:
            assert_never(provider)


def _anthropic(llm: LLMSettings) -> LLM:
    from service.agent.llm.anthropic_messages import AnthropicLLM

    if llm.temperature is not None:
        raise ConfigurationError(
            "llm.temperature is set, and Anthropic's API takes none",
            advice="Remove it (RONDO_LLM__TEMPERATURE, or from rondo.toml).",
        )
    return AnthropicLLM(
        model=llm.model or DEFAULT_ANTHROPIC_MODEL,
        base_url=llm.base_url,
        api_key=llm.api_key.get_secret_value(),
        max_tokens=llm.max_tokens,
        thinking_tokens=llm.thinking_tokens,
        context_tokens=llm.context_tokens,
        timeout_seconds=llm.timeout_seconds,
    )
