"""Finds the usual states of a token, which are taken off each before signs are kept of it.

``python -m research.fit_token_centres FOLDER…`` writes `e5_token_centres.json` anew, from sets of
evaluation data: what is remembered in those for retrieval, and the messages of those for routing.
The mean over the tokens of a language is that of its sets, each counting the same. States of a
language are counted from a point halfway between its mean and that of both: so they compare with
the other's, and keep some of what is their own. Writes `bundled_language_shift.json` as well, from
the sentences of `unrelated_cosines`. With ``--print`` neither is written. What the files hold was
made of LoCoMo (CC BY-NC 4.0), MADial-Bench and airline (MIT), BFCL, CrossWOZ and KdConv
(Apache-2.0), IRC (CC BY 4.0) and SGD (CC BY-SA 4.0).
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.bench.retrieval.retrieval_dataset import find_sets, read_set
from service.domain.text import script_of
from service.memory.embedders import bundled_e5
from service.memory.embedders.e5_encoder import E5Encoder
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.ledger.segmenter import segments_of
from service.memory.vectors.unrelated_cosines import SHIFT_OF_THE_BUNDLED, measured

_MOST = 500
"""Texts of a set and language: the mean of more is the same to a hundredth."""
_FEWEST = 50
_BATCH = 16
_OWN = 0.5
"""How far from the mean of both languages to its own."""


def main(arguments: Sequence[str]) -> None:
    """Write the files, or print what would stand in them."""
    prints = "--print" in arguments
    centres = _centres([Path(each) for each in arguments if each != "--print"])
    embedder = SentenceTransformerEmbedder("bundled:multilingual-e5-small", quick_start=False)
    shift = [float(f"{each:.4g}") for each in measured(embedder).shift]
    if prints:
        print(json.dumps({"centres": centres, "shift": shift}))
        return
    path = Path(bundled_e5.__file__).with_name(bundled_e5.TOKEN_CENTRES)
    path.write_text(json.dumps(centres) + "\n", encoding="utf-8")
    SHIFT_OF_THE_BUNDLED.write_text(json.dumps(shift) + "\n", encoding="utf-8")


def _centres(folders: Sequence[Path]) -> dict[str, object]:
    """By script, and the sets that they come of."""
    encoder = bundled_e5.load_module()
    means = defaultdict[str, dict[str, npt.NDArray[np.float64]]](dict)
    for name, texts in _texts(folders):
        for script in bundled_e5.TokenCentres._fields:
            own = [text for text in texts if script_of(text) == script]
            if len(own) >= _FEWEST:
                means[script][name] = _mean(encoder, own)
    of_script = {script: np.mean([*some.values()], axis=0) for script, some in means.items()}
    both = np.mean([*of_script.values()], axis=0)
    centres = {
        script: [float(f"{each:.4g}") for each in both + _OWN * (mean - both)]
        for script, mean in of_script.items()
    }
    return {"sets": {script: [*some] for script, some in means.items()}, **centres}


def _mean(encoder: E5Encoder, texts: Sequence[str]) -> npt.NDArray[np.float64]:
    total, tokens = np.zeros(bundled_e5.DIMENSION), 0
    for at in range(0, len(texts), _BATCH):
        _, rows = encoder.embed_by_token(texts[at : at + _BATCH], bundled_e5.PASSAGE_PROMPT)
        total += sum(row.states.numpy().sum(axis=0) for row in rows)
        tokens += sum(len(row.ids) for row in rows)
    mean: npt.NDArray[np.float64] = total / tokens
    return mean


def _texts(folders: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    for folder in folders:
        for found in find_sets(folder, ()):
            loops = read_set(found).run_loops
            yield (
                found.name,
                _some(
                    [
                        segment.content
                        for loop in loops
                        for index in range(len(loop.iterations))
                        for segment in segments_of(loop, index)
                    ]
                ),
            )
        for streams in sorted(each for each in (folder / "routing").glob("*") if each.is_dir()):
            lines = [
                line
                for file in sorted(streams.glob("*.jsonl"))
                for line in file.read_text(encoding="utf-8").splitlines()
            ]
            yield streams.name, _some([json.loads(line)["text"] for line in lines])


def _some(texts: list[str]) -> list[str]:
    random.Random(0).shuffle(texts)
    return texts[:_MOST]


if __name__ == "__main__":
    main(sys.argv[1:])
