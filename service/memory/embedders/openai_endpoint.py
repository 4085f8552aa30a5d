"""Embedding by any endpoint that speaks OpenAI's ``/embeddings``."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from service.domain.errors import EmbeddingError
from service.domain.redirects import redirect, shown
from service.memory.embedders.prompts import embeddable, unit_rows
from service.memory.protocol import Vectors

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

_BATCH = 64
_RETRIES = 3
_PASSAGE_TIMEOUT = 60.0
QUERY_SECONDS = 10.0
"""How long a search waits for the vector of a question."""
_QUERY_RETRIES = 1  # somebody waits, and search by words is there instead


class OpenAIEmbedder:
    """An `Embedder` by HTTP. The first call finds out the dimension.

    Refusals for being too busy (429) and failures of the endpoint (5xx) are tried again a few
    times, with growing pauses.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        api_key: str = "",
        query_prompt: str = "",
        passage_prompt: str = "",
        query_seconds: float = QUERY_SECONDS,
    ) -> None:
        """Name the endpoint; it is not called yet.

        Args:
            model: the model's name there.
            base_url: where ``/embeddings`` is; empty for ``OPENAI_BASE_URL``, or OpenAI itself.
            api_key: empty for ``OPENAI_API_KEY``, unless a `base_url` is given: a key is sent
                nowhere but where it belongs.
            query_prompt: written before each question.
            passage_prompt: written before each passage.
            query_seconds: how long a question's vector is waited for.
        """
        self._model = model
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL", "")
        environment_key = "" if base_url else os.environ.get("OPENAI_API_KEY", "")
        self._api_key = api_key or environment_key
        self._query_prompt = query_prompt
        self._passage_prompt = passage_prompt
        self._query_seconds = query_seconds
        self._lock = threading.Lock()
        self._client: OpenAI | None = None
        self._dimension: int | None = None

    @property
    def identity(self) -> str:
        """Model, dimension and prompts. Calls the endpoint if none was made before.

        Its address is no part of it: the same model is the same embedder on another port. Whether
        it is, its vectors tell, see `EmbeddingStore.embedder`.

        Raises:
            EmbeddingError: the endpoint cannot be used.
        """
        if self._dimension is None:
            self.embed_queries(["dimension"])
        return (
            f"openai {self._model} dimension={self._dimension} "
            f"query={self._query_prompt!r} passage={self._passage_prompt!r}"
        )

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        client = self._connect().with_options(
            timeout=self._query_seconds, max_retries=_QUERY_RETRIES
        )
        return self._embed(client, self._query_prompt, texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        return self._embed(self._connect(), self._passage_prompt, texts)

    def _embed(self, client: OpenAI, prompt: str, texts: Sequence[str]) -> Vectors:
        prepared = [prompt + embeddable(text) for text in texts]
        rows: list[list[float]] = []
        for start in range(0, len(prepared), _BATCH):
            rows += self._call(client, prepared[start : start + _BATCH])
        vectors = unit_rows(rows, texts)
        if texts:
            self._remember(vectors.shape[1])
        return vectors

    def _call(self, client: OpenAI, inputs: list[str]) -> list[list[float]]:
        from openai import APIConnectionError, APIError, APIStatusError

        try:
            answer = client.embeddings.create(
                model=self._model, input=inputs, encoding_format="float"
            )
            return [list(entry.embedding) for entry in sorted(answer.data, key=lambda e: e.index)]
        except APIStatusError as error:
            if error.response.has_redirect_location:
                raise _redirected(client, error) from error
            raise EmbeddingError(
                f"the endpoint refused with HTTP {error.status_code}: {error.message[:500]}",
                advice=_advice(error.status_code),
            ) from error
        except APIConnectionError as error:
            raise EmbeddingError(
                f"{_place(client)} cannot be reached: {error.__cause__ or error}",
                advice="Check RONDO_EMBEDDER__BASE_URL and the connection.",
            ) from error
        except (APIError, ValueError, TypeError, AttributeError) as error:
            raise EmbeddingError(
                f"{_place(client)} does not answer as an OpenAI-compatible endpoint: {error}",
                advice="Check RONDO_EMBEDDER__BASE_URL; it usually ends in /v1.",
            ) from error

    def _connect(self) -> OpenAI:
        from openai import DefaultHttpx2Client, OpenAI

        from service.memory.embedders.bounded_bodies import bounding

        with self._lock:
            if self._client is None:
                self._client = OpenAI(
                    base_url=self._base_url or None,
                    api_key=self._api_key or "none",  # local endpoints want no key
                    timeout=_PASSAGE_TIMEOUT,
                    max_retries=_RETRIES,
                    # A key goes where its owner sent it.
                    http_client=DefaultHttpx2Client(
                        follow_redirects=False,
                        event_hooks={"response": [bounding(self._endless)]},
                        headers={"Accept-Encoding": "identity"},
                    ),
                )
            return self._client

    def _endless(self, what: str) -> EmbeddingError:
        return EmbeddingError(
            f"the endpoint of {self._model} {what}",
            advice="Check RONDO_EMBEDDER__BASE_URL, and any proxy before it.",
        )

    def _remember(self, dimension: int) -> None:
        with self._lock:
            if self._dimension is None:
                self._dimension = dimension
        if self._dimension != dimension:
            raise EmbeddingError(
                f"{self._model} gave vectors of {dimension} numbers, and of {self._dimension} "
                "before",
                advice="The endpoint has changed its model: restart the daemon.",
            )


def _redirected(client: OpenAI, error: APIStatusError) -> EmbeddingError:
    response = error.response
    asked, base = str(response.request.url), str(client.base_url).rstrip("/")
    elsewhere = redirect(asked, base, response.headers["location"])
    return EmbeddingError(
        elsewhere.detail(_place(client)), advice=elsewhere.advice("RONDO_EMBEDDER__BASE_URL")
    )


def _place(client: OpenAI) -> str:
    return shown(str(client.base_url)) or "the address of the embedder"


def _advice(status: int) -> str:
    if status in (401, 403):
        return "Check RONDO_EMBEDDER__API_KEY."
    if status == 404:
        return "Check RONDO_EMBEDDER__MODEL and RONDO_EMBEDDER__BASE_URL."
    if status == 429 or status >= 500:
        return "It is tried again later."
    return "Check the embedder's settings."
