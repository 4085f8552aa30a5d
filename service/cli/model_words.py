"""Which model answers, in honest words."""

from __future__ import annotations

from urllib.parse import urlsplit

from service.config import Settings


def capabilities(settings: Settings) -> str:
    """What the model that runs on this machine can and cannot do, and how to get a better one."""
    from service.agent.llm.embedded import describe

    return describe(embedded_model(settings))


def embedded_model(settings: Settings) -> str:
    """The name of the model that runs on this machine under these settings."""
    from service.models.catalog import DEFAULT_MODEL

    return settings.llm.model or DEFAULT_MODEL


def model_in_words(settings: Settings) -> str:
    """Which model answers, as a short phrase."""
    match settings.llm.effective_provider:
        case "embedded":
            return f"{embedded_model(settings)}, on this machine"
        case "openai" | "anthropic":
            return f"{endpoint_model(settings)} at {endpoint(settings)}"
        case "scripted":
            return f"the script {settings.llm.model}"


def endpoint_model(settings: Settings) -> str:
    """The model that a configured endpoint is asked for."""
    from service.agent.llm import DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL

    is_anthropic = settings.llm.effective_provider == "anthropic"
    default = DEFAULT_ANTHROPIC_MODEL if is_anthropic else DEFAULT_OPENAI_MODEL
    return settings.llm.model or default


def endpoint(settings: Settings) -> str:
    """Where the configured endpoint is, without the user part and the query: keys may stand there.

    >>> from service.config import LLMSettings
    >>> endpoint(Settings(llm=LLMSettings(base_url="https://me:key@llm.example/v1?token=x")))
    'https://llm.example/v1'
    """
    parts = urlsplit(settings.llm.base_url)
    host = parts.netloc.rpartition("@")[2]
    if host:
        return f"{parts.scheme}://{host}{parts.path}"
    return "Anthropic" if settings.llm.effective_provider == "anthropic" else "OpenAI"
