"""Finds the usual state of a token, which is taken off each before signs are kept of it.

``python -m research.fit_token_centre FOLDER…`` writes `e5_token_centre.json` anew: the mean over
the tokens of what is remembered in some sets of evaluation data, each set counting the same.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from service.bench.retrieval.retrieval_dataset import find_sets, read_set
from service.memory.embedders import bundled_e5
from service.memory.ledger.segmenter import segments_of

_MOST = 1000
"""Segments of a set: the mean of more is the same to a thousandth."""
_BATCH = 16


def main(folders: Sequence[str]) -> None:
    """Write the file."""
    encoder = bundled_e5.load_module()
    means = []
    sets = [folder for each in folders for folder in find_sets(Path(each), ())]
    for folder in sets:
        loops = read_set(folder).run_loops
        texts = [
            segment.content
            for loop in loops
            for index in range(len(loop.iterations))
            for segment in segments_of(loop, index)
        ]
        random.Random(0).shuffle(texts)
        total, tokens = np.zeros(bundled_e5.DIMENSION), 0
        for at in range(0, min(_MOST, len(texts)), _BATCH):
            _, rows = encoder.embed_by_token(texts[at : at + _BATCH], bundled_e5.PASSAGE_PROMPT)
            for row in rows:
                total += row.states.numpy().sum(axis=0)
                tokens += len(row.ids)
        means.append(total / tokens)
        print(f"{folder.name}: {tokens} tokens", file=sys.stderr)
    centre = [float(f"{each:.4g}") for each in np.mean(means, axis=0)]
    report = {"mean of the sets": [each.name for each in sets], "centre": centre}
    path = Path(bundled_e5.__file__).with_name(bundled_e5.TOKEN_CENTRE)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
