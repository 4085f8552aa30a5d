"""Reranking by an HTTP endpoint with ``/rerank``, as Jina, Cohere, vLLM, TEI proxies and llama.cpp
have it: ``{model, query, documents, top_n}`` is answered by
``{results: [{index, relevance_score}]}``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from service.domain.errors import RerankingError
from service.domain.redirects import redirect, shown
from service.memory.embedders.prompts import embeddable
from service.memory.memory_tuning import RERANKED
from service.memory.rerankers.protocol import between_0_and_1


class EndpointReranker:
    """A `Reranker` by HTTP. It is asked once: somebody waits, and the first order is there."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str = "",
        timeout_seconds: float = 10.0,
        most: int = RERANKED,
    ) -> None:
        """Name the endpoint; it is not called yet.

        Args:
            model: the model's name there; empty where it has only one.
            base_url: where ``/rerank`` is.
            api_key: sent as a bearer token; empty for none.
            timeout_seconds: longest wait for the answer.
            most: see `Reranker.most`.
        """
        self._model = model
        self._base_url = base_url
        self._url = f"{base_url.rstrip('/')}/rerank"
        self._place = shown(self._url) or "the address of the reranker"
        self._headers = {"Accept-Encoding": "identity"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = timeout_seconds
        self._most = most

    @property
    def most(self) -> int:
        """See `Reranker.most`."""
        return self._most

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker.scores`."""
        import httpx2

        from service.memory.embedders.bounded_bodies import bounding

        if not texts:
            return []
        body: dict[str, Any] = {
            "query": embeddable(query),
            "documents": [embeddable(text) for text in texts],
            "top_n": len(texts),
        }
        if self._model:
            body["model"] = self._model
        try:
            with httpx2.Client(
                timeout=self._timeout, event_hooks={"response": [bounding(self._endless)]}
            ) as client:
                answer = client.post(self._url, json=body, headers=self._headers)
        except httpx2.TimeoutException as error:
            raise RerankingError(
                f"{self._place} did not answer within {self._timeout:g} seconds",
                advice="Raise memory.reranker.timeout_seconds, or lower its candidates.",
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise RerankingError(
                f"{self._place} cannot be reached: {error}",
                advice="Check memory.reranker.base_url and the connection.",
            ) from error
        if answer.has_redirect_location:
            elsewhere = redirect(self._url, self._base_url, answer.headers["location"])
            raise RerankingError(
                elsewhere.detail(self._place), advice=elsewhere.advice("memory.reranker.base_url")
            )
        if answer.status_code != httpx2.codes.OK:
            raise RerankingError(
                f"{self._place} refused with HTTP {answer.status_code}: {answer.text[:300]}",
                advice=_advice(answer.status_code),
            )
        return between_0_and_1(self._read(answer, len(texts)))

    def _endless(self, what: str) -> RerankingError:
        return RerankingError(
            f"{self._place} {what}",
            advice="Check memory.reranker.base_url, and any proxy before it.",
        )

    def _read(self, answer: Any, count: int) -> list[float]:
        try:
            results = answer.json()["results"]
            by_index = {int(each["index"]): float(each["relevance_score"]) for each in results}
            scores = [by_index[index] for index in range(count)]
        except (ValueError, KeyError, TypeError) as error:
            raise RerankingError(
                f"{self._place} does not answer as a reranker does: {error!r}",
                advice="Check memory.reranker.base_url: it is the address without /rerank.",
            ) from error
        if not all(map(math.isfinite, scores)):
            raise RerankingError(
                f"{self._place} gave a score that is no number", advice="Use another model."
            )
        return scores


def _advice(status: int) -> str:
    if status in (401, 403):
        return "Check memory.reranker.api_key."
    if status == 404:
        return "Check memory.reranker.base_url and memory.reranker.model."
    return "Try again later, or search without the reranker."
