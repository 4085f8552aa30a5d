"""Reranking by a cross-encoder of sentence-transformers, in this process."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from service.domain.errors import RerankingError
from service.memory.embedders.prompts import embeddable
from service.memory.memory_tuning import RERANKED
from service.memory.rerankers.protocol import between_0_and_1

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


class CrossEncoderReranker:
    """A `Reranker`. The first call loads the model: seconds, or minutes from the Hub."""

    def __init__(self, model: str, *, most: int = RERANKED) -> None:
        """Name the model; nothing is loaded yet.

        Args:
            model: a folder, or a Hub id. Only a Hub id ever uses the network.
            most: see `Reranker.most`.
        """
        self._name = model
        self._most = most
        self._loading = threading.Lock()
        self._model: CrossEncoder | None = None

    @property
    def most(self) -> int:
        """See `Reranker.most`."""
        return self._most

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker.scores`."""
        if not texts:
            return []
        model = self._load()
        asked = embeddable(query)
        try:
            predicted = model.predict(
                [(asked, embeddable(text)) for text in texts], show_progress_bar=False
            )
            numbers = [float(number) for number in predicted]
        # A foreign model fails in ways of its own: a wrong shape, an index beyond its vocabulary.
        except Exception as error:
            raise RerankingError(
                f"{self._name} failed: {error}",
                advice="It must be a cross-encoder with one score for each pair of texts.",
            ) from error
        if not all(map(math.isfinite, numbers)):
            raise RerankingError(
                f"{self._name} gave a score that is no number", advice="Use another model."
            )
        return between_0_and_1(numbers)

    def _load(self) -> CrossEncoder:
        with self._loading:
            if self._model is None:
                self._model = _open(self._name)
            return self._model


def _open(name: str) -> CrossEncoder:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    folder = Path(name).expanduser()
    try:
        if not folder.is_dir() and (folder.is_absolute() or name.startswith((".", "~"))):
            raise FileNotFoundError(f"there is no folder {folder}")
        from sentence_transformers import CrossEncoder

        local = folder.is_dir()
        return CrossEncoder(
            str(folder) if local else name, local_files_only=local, trust_remote_code=False
        )
    # Whatever a foreign model's files hold surfaces here as an error of any kind.
    except Exception as error:
        raise RerankingError(
            f"the cross-encoder {name} cannot be loaded: {error}",
            advice="Check memory.reranker.model and, for a Hub id, the connection.",
        ) from error
