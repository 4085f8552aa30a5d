"""Which model answers, in words for people."""

from __future__ import annotations

from urllib.parse import urlsplit

from service.config import LLMSettings, Settings


def capabilities(settings: Settings, llm: LLMSettings | None = None) -> str:
    """What the model that runs on this machine can and cannot do, and how to get a better one."""
    from service.llm.embedded.embedded_model import describe

    return describe(embedded_model(settings, llm))


def disclaimer(llm: LLMSettings) -> str:
    """What a small model is not good for, in one line; empty for models at an endpoint.

    >>> len(disclaimer(LLMSettings(provider="embedded"))) < 80
    True
    """
    if llm.effective_provider != "embedded":
        return ""
    return "A small model: it invents facts. `rondo setup` finds a better one."


def embedded_model(settings: Settings, llm: LLMSettings | None = None) -> str:
    """The name of the model that runs on this machine: the one set, or the machine's choice.

    Args:
        settings: all settings.
        llm: those of one of its other models; None: of ``llm`` itself.
    """
    from service.models.machine import chosen

    return (llm or settings.llm).model or chosen().name


def model_in_words(settings: Settings, llm: LLMSettings | None = None) -> str:
    """Which model answers, as a short phrase."""
    llm = llm or settings.llm
    match llm.effective_provider:
        case "embedded":
            return f"{embedded_model(settings, llm)}, on this machine"
        case "openai" | "anthropic":
            return f"{endpoint_model(llm)} at {endpoint(llm)}"
        case "scripted":
            return f"the script {llm.model}"


def endpoint_model(llm: LLMSettings) -> str:
    """The model that a configured endpoint is asked for."""
    from service.llm.remote.endpoints import DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL

    is_anthropic = llm.effective_provider == "anthropic"
    default = DEFAULT_ANTHROPIC_MODEL if is_anthropic else DEFAULT_OPENAI_MODEL
    return llm.model or default


def endpoint(llm: LLMSettings) -> str:
    """Where the configured endpoint is, without the user part and the query: keys may stand there.

    >>> endpoint(LLMSettings(base_url="https://me:key@llm.example/v1?token=x"))
    'https://llm.example/v1'
    """
    parts = urlsplit(llm.base_url)
    host = parts.netloc.rpartition("@")[2]
    if host:
        return f"{parts.scheme}://{host}{parts.path}"
    return "Anthropic" if llm.effective_provider == "anthropic" else "OpenAI"
