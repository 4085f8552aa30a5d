"""How texts become vectors: which embedder the settings ask for."""

from __future__ import annotations

from typing import assert_never

from service.config import Settings
from service.domain.errors import ConfigurationError
from service.memory.embedders.openai_endpoint import OpenAIEmbedder
from service.memory.embedders.sentence_transformer import BUNDLED, SentenceTransformerEmbedder
from service.memory.protocol import Embedder


def create_embedder(settings: Settings, *, quick_start: bool = True) -> Embedder | None:
    """The embedder of these settings; None for ``none``. Cheap: the first call loads the model.

    Args:
        settings: say which.
        quick_start: see `SentenceTransformerEmbedder`.

    Raises:
        ConfigurationError: no such bundled model, or no model named for an endpoint.
    """
    configured = settings.embedder
    match configured.kind:
        case "none":
            return None
        case "openai":
            if not configured.model or configured.model.startswith("bundled:"):
                raise ConfigurationError(
                    f"embedder.model is {configured.model!r}, which no endpoint offers",
                    advice="Name the endpoint's embedding model, such as text-embedding-3-small.",
                )
            return OpenAIEmbedder(
                configured.model,
                base_url=configured.base_url,
                api_key=configured.api_key.get_secret_value(),
                query_prompt=configured.query_prompt or "",
                passage_prompt=configured.passage_prompt or "",
            )
        case "sentence-transformers":
            kind, _, name = configured.model.partition(":")
            if kind == "bundled" and name not in BUNDLED:
                raise ConfigurationError(
                    f"there is no bundled embedder {name!r}",
                    advice=f"Choose one of: {', '.join(f'bundled:{each}' for each in BUNDLED)}; "
                    "or give a folder or a Hub id.",
                )
            return SentenceTransformerEmbedder(
                configured.model,
                query_prompt=configured.query_prompt,
                passage_prompt=configured.passage_prompt,
                quick_start=quick_start,
            )
        case _:
            assert_never(configured.kind)
