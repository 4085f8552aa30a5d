"""Rerankers: a tiny cross-encoder that the test builds, and endpoints of a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from service.config import Settings
from service.domain.errors import ConfigurationError, RerankingError
from service.memory.rerankers import create_reranker
from service.memory.rerankers.cross_encoder import CrossEncoderReranker
from service.memory.rerankers.endpoint import EndpointReranker

TEXTS = ["lamp", "a boat", "灯\0\ud83d", " ", "tea " * 10_000]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights and a vocabulary of single characters."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    folder = tmp_path_factory.mktemp("model")
    letters = [chr(code) for code in range(33, 127)] + list("灯")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(pieces), encoding="utf-8")
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
    )
    config.num_labels = 1
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizer(str(vocabulary), model_max_length=128).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_cross_encoder_scores_each_text_between_0_and_1(tiny_model: Path) -> None:
    reranker = CrossEncoderReranker(str(tiny_model), most=7)
    scores = reranker.scores("a lamp", TEXTS)
    assert len(scores) == len(TEXTS)
    assert all(0 <= score <= 1 for score in scores)
    assert len(set(scores)) > 1
    assert reranker.scores("a lamp", TEXTS) == pytest.approx(scores)
    assert reranker.scores("a lamp", []) == []
    assert reranker.most == 7


def test_a_folder_that_is_not_there_or_no_model_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(RerankingError, match="no folder"):
        CrossEncoderReranker(str(tmp_path / "none")).scores("q", ["t"])


@pytest.mark.slow
def test_a_folder_without_a_model_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RerankingError, match="cannot be loaded"):
        CrossEncoderReranker(str(tmp_path)).scores("q", ["t"])


@contextmanager
def answering(
    status: int,
    answer: Any,
    *,
    wait: threading.Event | None = None,
    headers: Mapping[str, str] = {},
) -> Iterator[Any]:
    """An endpoint that always answers so; yields its address and what it was sent."""
    sent: list[tuple[str, str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append((self.path, self.headers.get("Authorization"), body))
            if wait is not None:
                wait.wait(30)
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/", sent
    finally:
        if wait is not None:
            wait.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_an_endpoint_is_asked_once_and_its_scores_are_put_in_order() -> None:
    results = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.25}]
    with answering(200, {"model": "m", "results": results}) as (url, sent):
        reranker = EndpointReranker("m", base_url=url, api_key="secret")
        assert reranker.scores("a lamp", ["tea", "lamp\0\ud83d"]) == [0.25, 0.9]
        assert reranker.scores("a lamp", []) == []
    ((path, key, body),) = sent
    assert (path, key) == ("/v1/rerank", "Bearer secret")
    assert body == {
        "model": "m",
        "query": "a lamp",
        "documents": ["tea", "lamp \ufffd"],
        "top_n": 2,
    }


@pytest.mark.slow
def test_scores_beyond_1_are_brought_between_0_and_1_in_the_same_order() -> None:
    results = [{"index": 0, "relevance_score": -3.5}, {"index": 1, "relevance_score": 7}]
    with answering(200, {"results": results}) as (url, sent):
        low, high = EndpointReranker("", base_url=url).scores("q", ["a", "b"])
    assert 0 < low < high < 1
    assert sent[0][1] is None
    assert "model" not in sent[0][2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (401, {}, "memory.reranker.api_key"),
        (404, {}, "memory.reranker.model"),
        (500, {"error": "tired"}, "tired"),
        (200, b"<html>", "as a reranker does"),
        (200, {"results": [{"index": 0, "relevance_score": 0.5}]}, "as a reranker does"),
        (200, {"results": [{"index": 0}, {"index": 1}]}, "as a reranker does"),
        (200, [], "as a reranker does"),
        (
            200,
            b'{"results": [{"index": 0, "relevance_score": NaN}, '
            b'{"index": 1, "relevance_score": 1}]}',
            "no number",
        ),
    ],
)
def test_an_endpoint_that_fails_is_told_in_words(status: int, answer: Any, words: str) -> None:
    with answering(status, answer) as (url, _), pytest.raises(RerankingError) as error:
        EndpointReranker("m", base_url=url, api_key="secret").scores("q", ["a", "b"])
    assert words in error.value.problem().in_words()
    assert "secret" not in error.value.problem().in_words()


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_told_and_not_followed(status: int) -> None:
    with answering(200, {}) as (there, asked_there):
        location = there.replace("http://", "http://me:hush@") + "rerank?key=hush"
        with (
            answering(status, {}, headers={"Location": location}) as (url, _),
            pytest.raises(RerankingError) as error,
        ):
            EndpointReranker("m", base_url=url, api_key="secret").scores("q", ["a"])
    assert asked_there == []
    assert f"redirects to {there}rerank" in error.value.detail
    assert f"Set memory.reranker.base_url to {there.rstrip('/')} if" in error.value.advice
    assert "hush" not in error.value.problem().in_words()


@pytest.mark.slow
def test_a_password_in_the_address_is_not_shown() -> None:
    with answering(500, {}) as (url, _):
        reranker = EndpointReranker("m", base_url=url.replace("http://", "http://me:hush@"))
        with pytest.raises(RerankingError) as error:
            reranker.scores("q", ["a"])
    assert url in error.value.detail
    assert "hush" not in error.value.problem().in_words()


@pytest.mark.slow
def test_an_endpoint_that_is_silent_or_not_there_is_told_in_words() -> None:
    silent = answering(200, {}, wait=threading.Event())
    with silent as (url, _), pytest.raises(RerankingError, match="did not answer"):
        EndpointReranker("m", base_url=url, timeout_seconds=0.2).scores("q", ["a"])
    with pytest.raises(RerankingError, match="cannot be reached"):
        EndpointReranker("m", base_url=url).scores("q", ["a"])
    with pytest.raises(RerankingError, match="cannot be reached"):
        EndpointReranker("m", base_url="no address").scores("q", ["a"])


def settings(**reranker: object) -> Settings:
    return Settings.model_validate({"memory": {"reranker": reranker}})


def test_the_settings_choose_a_reranker_and_none_by_default() -> None:
    assert create_reranker(Settings()) is None
    local = create_reranker(settings(kind="cross-encoder", model="some/model", candidates=9))
    assert isinstance(local, CrossEncoderReranker)
    assert local.most == 9
    remote = create_reranker(settings(kind="endpoint", base_url="http://127.0.0.1:1/v1"))
    assert isinstance(remote, EndpointReranker)
    with pytest.raises(ConfigurationError, match="model is empty"):
        create_reranker(settings(kind="cross-encoder"))
    with pytest.raises(ConfigurationError, match="base_url is empty"):
        create_reranker(settings(kind="endpoint"))


def test_secrets_of_a_reranker_are_not_shown() -> None:
    shown = settings(
        kind="endpoint", api_key="hush", base_url="https://ann:hush@example.org/v1"
    ).shown()
    assert "hush" not in json.dumps(shown)
