"""Rerankers: slower models that read query and text together. Optional; which the settings say."""

from __future__ import annotations

from typing import assert_never

from service.config import Settings
from service.domain.errors import ConfigurationError
from service.memory.rerankers.cross_encoder import CrossEncoderReranker
from service.memory.rerankers.endpoint import EndpointReranker
from service.memory.rerankers.protocol import Reranker


def create_reranker(settings: Settings) -> Reranker | None:
    """The reranker of these settings; None for ``none``. Cheap: the first call loads the model.

    Raises:
        ConfigurationError: no model, or no address of an endpoint, is named.
    """
    configured = settings.memory.reranker
    match configured.kind:
        case "none":
            return None
        case "cross-encoder":
            if not configured.model:
                raise ConfigurationError(
                    "memory.reranker.model is empty",
                    advice="Name a cross-encoder: a folder, or a Hub id such as"
                    " BAAI/bge-reranker-v2-m3.",
                )
            return CrossEncoderReranker(configured.model, most=configured.candidates)
        case "endpoint":
            if not configured.base_url:
                raise ConfigurationError(
                    "memory.reranker.base_url is empty",
                    advice="Give the address under which the endpoint has /rerank, such as"
                    " https://api.jina.ai/v1.",
                )
            return EndpointReranker(
                configured.model,
                base_url=configured.base_url,
                api_key=configured.api_key.get_secret_value(),
                timeout_seconds=configured.timeout_seconds,
                most=configured.candidates,
            )
        case _:
            assert_never(configured.kind)
