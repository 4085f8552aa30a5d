"""Embedders: the bundled model, a folder, an endpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from service.config import EmbedderSettings, Settings
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import ConfigurationError, EmbeddingError
from service.memory.embedders import create_embedder
from service.memory.embedders.openai_endpoint import OpenAIEmbedder
from service.memory.embedders.prompts import embeddable
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder


@pytest.mark.slow
def test_a_folder_is_loaded_with_its_own_prompts_or_the_given_ones(tmp_path: Path) -> None:
    _save_tiny_model(tmp_path / "tiny")
    own = SentenceTransformerEmbedder(str(tmp_path / "tiny"))
    plain = SentenceTransformerEmbedder(str(tmp_path / "tiny"), query_prompt="", passage_prompt="")
    assert own.embed_queries(["red apples"]).shape == (1, 16)
    assert np.allclose(own.embed_queries(["apples"]), plain.embed_queries(["red apples"]))
    assert np.allclose(own.embed_passages(["apples"]), plain.embed_passages(["apples"]))
    assert own.identity != plain.identity


def _save_tiny_model(folder: Path) -> None:
    """A model of 16 numbers whose question prompt is "red "."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {"[UNK]": 0, "red": 1, "apples": 2}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    weights = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights)],
        prompts={"query": "red "},
        device="cpu",
    )
    model.save(str(folder))


def test_a_missing_folder_is_told_in_words(tmp_path: Path) -> None:
    embedder = SentenceTransformerEmbedder(str(tmp_path / "nowhere"))
    with pytest.raises(EmbeddingError, match="nowhere") as caught:
        embedder.embed_queries(["x"])
    assert "bundled:" in caught.value.advice


def test_long_texts_are_cut_before_the_engine() -> None:
    assert estimate_tokens(embeddable("天" * 10_000_000)) <= 512
    assert embeddable(" " * 10_000 + "word") == "word"


def test_settings_choose_the_embedder() -> None:
    def chosen(**settings: str) -> object:
        return create_embedder(Settings(embedder=EmbedderSettings(**settings)))

    assert chosen(kind="none") is None
    assert isinstance(chosen(), SentenceTransformerEmbedder)
    assert isinstance(chosen(kind="openai", model="m"), OpenAIEmbedder)
    with pytest.raises(ConfigurationError, match="no bundled embedder"):
        chosen(model="bundled:word2vec")
    with pytest.raises(ConfigurationError, match="no endpoint offers"):
        chosen(kind="openai")


class Endpoint(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint on a free port; `answer` makes its next answers."""

    def __init__(self, answer: Callable[[dict[str, object]], tuple[int, object]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[dict[str, object]] = []
        self.keys: list[str] = []
        self.location = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.server.keys.append(self.headers["Authorization"])
        status, answer = self.server.answer(asked)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("retry-after-ms", "1")
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _letters(asked: dict[str, object]) -> tuple[int, object]:
    """Vectors of how many a's and b's a text has, handed over in the wrong order."""
    inputs = asked["input"]
    assert isinstance(inputs, list)
    data = [
        {"object": "embedding", "index": i, "embedding": [text.count("a"), text.count("b"), 1]}
        for i, text in enumerate(inputs)
    ]
    return 200, {"object": "list", "model": "m", "data": data[::-1], "usage": {}}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint(_letters)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_an_endpoint_embeds_in_batches_with_prompts(endpoint: Endpoint) -> None:
    embedder = OpenAIEmbedder("m", base_url=endpoint.url, api_key="secret", query_prompt="b: ")
    vectors = embedder.embed_passages(["a" * (index + 1) for index in range(100)])
    assert vectors.shape == (100, 3)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.all(np.diff(vectors[:, 0]) > 0), "in the order of the texts"
    assert len(endpoint.asked) == 2
    assert embedder.embed_queries(["a"])[0][1] > 0
    assert "dimension=3" in embedder.identity
    assert endpoint.keys[0] == "Bearer secret"


@pytest.mark.slow
def test_a_key_of_the_environment_goes_to_no_other_endpoint(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    OpenAIEmbedder("m", base_url=endpoint.url).embed_queries(["a"])
    assert "secret" not in endpoint.keys[0]


@pytest.mark.slow
def test_a_busy_endpoint_is_asked_again(endpoint: Endpoint) -> None:
    statuses = [429, 503]
    endpoint.answer = lambda asked: (statuses.pop(), {}) if statuses else _letters(asked)
    assert OpenAIEmbedder("m", base_url=endpoint.url).embed_passages(["a"]).shape == (1, 3)
    assert len(endpoint.asked) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (401, {"error": {"message": "wrong key"}}, "RONDO_EMBEDDER__API_KEY"),
        (404, {"error": {"message": "no such model"}}, "RONDO_EMBEDDER__MODEL"),
        (200, {"hello": "I am a web page"}, "RONDO_EMBEDDER__BASE_URL"),
        (200, {"data": []}, ""),
        (200, {"data": [{"index": 0, "embedding": [0, 0]}]}, "Choose another model"),
    ],
)
def test_what_an_endpoint_does_wrong_is_told_in_words(
    endpoint: Endpoint, status: int, answer: object, words: str
) -> None:
    endpoint.answer = lambda _: (status, answer)
    with pytest.raises(EmbeddingError) as caught:
        OpenAIEmbedder("m", base_url=endpoint.url).embed_queries(["a"])
    assert words in caught.value.advice


@pytest.mark.slow
def test_a_redirect_is_told_and_not_followed(endpoint: Endpoint) -> None:
    endpoint.answer = lambda _: (307, {})
    endpoint.location = "https://me:hush@elsewhere.example/api/v1/embeddings?key=hush"
    with pytest.raises(EmbeddingError) as caught:
        OpenAIEmbedder("m", base_url=endpoint.url, api_key="secret").embed_queries(["a"])
    words = caught.value.problem().in_words()
    assert "redirects to https://elsewhere.example/api/v1/embeddings" in words
    assert "Set RONDO_EMBEDDER__BASE_URL to https://elsewhere.example/api/v1 if" in words
    assert "hush" not in words
    assert len(endpoint.asked) == 1


@pytest.mark.slow
def test_a_password_in_the_address_is_not_shown() -> None:
    with pytest.raises(EmbeddingError, match=r"http://127.0.0.1:9/v1") as caught:
        OpenAIEmbedder("m", base_url="http://me:hush@127.0.0.1:9/v1").embed_queries(["a"])
    assert "hush" not in caught.value.problem().in_words()


@pytest.mark.slow
def test_an_endpoint_that_is_away_is_told_in_words() -> None:
    with pytest.raises(EmbeddingError, match="cannot be reached"):
        OpenAIEmbedder("m", base_url="http://127.0.0.1:9/v1").embed_queries(["a"])


@pytest.mark.slow
def test_a_changed_dimension_is_an_error(endpoint: Endpoint) -> None:
    embedder = OpenAIEmbedder("m", base_url=endpoint.url)
    embedder.embed_queries(["a"])
    endpoint.answer = lambda _: (200, {"data": [{"index": 0, "embedding": [1, 0]}]})
    with pytest.raises(EmbeddingError, match="2 numbers"):
        embedder.embed_queries(["a"])
