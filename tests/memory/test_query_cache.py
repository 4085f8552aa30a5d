"""A question is embedded once, and comes back as it was."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from service.domain.errors import EmbeddingError
from service.memory.embedders.query_cache import QueryCache
from service.memory.protocol import Vectors, by_token
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.word_tokens import WordTokenEmbedder


class Counting(WordEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.questions += texts
        return super().embed_queries(texts)


def test_each_question_is_embedded_once_and_each_row_is_its_own() -> None:
    counting = Counting()
    cache = QueryCache(counting)
    texts = ["a cat", "a dog", "a cat", "猫"]
    assert np.array_equal(cache.embed_queries(texts), WordEmbedder().embed_queries(texts))
    again = cache.embed_queries(["猫", "a bird", "a dog"])
    assert np.array_equal(again, WordEmbedder().embed_queries(["猫", "a bird", "a dog"]))
    assert sorted(counting.questions) == ["a bird", "a cat", "a dog", "猫"]


def test_no_question_has_no_row() -> None:
    assert len(QueryCache(WordEmbedder()).embed_queries([])) == 0


def test_only_so_many_are_kept_and_those_asked_for_last_stay() -> None:
    counting = Counting()
    cache = QueryCache(counting, kept=2)
    for text in ("one", "two", "one", "three", "one", "two"):
        cache.embed_queries([text])
    assert counting.questions == ["one", "two", "three", "two"]


def test_threads_get_the_rows_that_they_asked_for() -> None:
    cache = QueryCache(WordEmbedder(), kept=8)
    wrong: list[str] = []

    def ask(number: int) -> None:
        for turn in range(60):
            text = f"word{(number + turn) % 12}"
            if not np.array_equal(
                cache.embed_queries([text]), WordEmbedder().embed_queries([text])
            ):
                wrong.append(text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_states_of_tokens_are_kept_and_a_vector_alone_is_not_enough() -> None:
    embedder = WordTokenEmbedder(ready=False)
    cache = QueryCache(embedder)
    assert cache.token_identity == embedder.token_identity
    assert cache.embed_queries_by_token(["a cat"]).tokens is None
    embedder.ready.set()
    assert cache.wait_for_tokens(1) is True
    embedded = cache.embed_queries_by_token(["a cat", "猫", "a cat"])
    assert embedded.tokens is not None
    assert [len(each.states) for each in embedded.tokens] == [2, 1, 2]
    assert len(embedded.vectors) == 3
    asked = len(embedder.asked_by_token)
    assert cache.embed_queries_by_token(["猫"]).tokens is not None
    assert len(embedder.asked_by_token) == asked
    cache.clear()
    cache.embed_queries_by_token(["猫"])
    assert len(embedder.asked_by_token) == asked + 1


def test_an_embedder_without_states_has_none_behind_the_cache_either() -> None:
    cache = QueryCache(WordEmbedder())
    assert cache.token_identity is None
    assert cache.wait_for_tokens(1) is None
    assert cache.embed_queries_by_token(["a cat"]).tokens is None
    assert cache.embed_passages_by_token(["a cat"]).tokens is None


class Unloaded(WordTokenEmbedder):
    @property
    def identity(self) -> str:  # type: ignore[override]
        raise EmbeddingError("it would have to be loaded now")

    @property
    def token_identity(self) -> str:  # type: ignore[override]
        raise EmbeddingError("it would have to be loaded now")


def test_a_cache_is_made_without_loading_anything() -> None:
    assert by_token(Unloaded()) is not None
    assert by_token(WordEmbedder()) is None
    with pytest.raises(EmbeddingError):
        _ = QueryCache(Unloaded()).token_identity
