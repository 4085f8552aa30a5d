"""Pieces of words that a message shares with each candidate: other endings, typing errors, names.

A piece is four characters in a row, or two where the message has Chinese characters. Of what was
said, the pieces are kept as numbers, in order, so that many are looked up at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Texts = tuple[str, ...]

_HAN = re.compile(r"[\u4e00-\u9fff]")
_SPACES = re.compile(r"\s+")
_READ = 160
"""Characters of the message whose pieces are looked for."""
_SEARCHED = 300
"""Characters of a turn in which they are looked for."""
_CACHED = 512
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""By which one character is mixed with the next (2^64 over the golden ratio, as Knuth has it)."""


def pieces(text: str) -> list[str]:
    """The pieces of a text in lower case, each once, in order."""
    said = _spaced(text[:_READ])
    size = 2 if _HAN.search(said) else 4
    return list(dict.fromkeys(said[at : at + size] for at in range(max(len(said) - size + 1, 1))))


def shared_pieces(
    message: str, every: Sequence[Texts], newest: Sequence[Texts]
) -> NDArray[np.float64]:
    """One row a candidate, of whose texts in lower case `every` has all and `newest` the newest.

    The share of the message's pieces, by rarity, in the newest texts and in all, and what those
    weigh that it alone has. Shape (candidates, 3).
    """
    looked_for = pieces(message)
    size = len(looked_for[0])
    numbers = _numbers("".join(looked_for), size)[::size]
    held_last = _held(numbers, newest, size)
    held = _held(numbers, every, size)
    holding = held.sum(axis=0)
    weights = np.log1p((len(every) + 1) / (holding + 0.5))
    whole = math.fsum(weights)
    return np.stack(
        [
            (held_last * weights).sum(axis=1) / whole,
            (held * weights).sum(axis=1) / whole,
            (held * (holding == 1) * weights).sum(axis=1),
        ],
        axis=1,
    )


def clear_cache() -> None:
    """Keep nothing of any text in the process's memory."""
    for each in KEPT:
        each.cache_clear()


@lru_cache(maxsize=4096)
def _spaced(text: str) -> str:
    return f" {_SPACES.sub(' ', text.strip())} "


def _numbers(text: str, size: int) -> NDArray[np.uint64]:
    """A number for each run of `size` characters."""
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    count = max(len(characters) - size + 1, 0)
    numbers = np.zeros(count, dtype=np.uint64)
    for place in range(size):
        numbers = (numbers + characters[place : place + count]) * _FACTOR
    return numbers


@lru_cache(maxsize=_CACHED)
def _piece_numbers(texts: Texts, size: int) -> NDArray[np.uint64]:
    """The numbers of all pieces of some texts, ascending."""
    said = [_numbers(_spaced(text[:_SEARCHED]), size) for text in texts]
    return np.unique(np.concatenate(said))


def _held(numbers: NDArray[np.uint64], each: Sequence[Texts], size: int) -> NDArray[np.bool_]:
    """Which candidate holds which piece, shape (candidates, pieces)."""
    held = np.zeros((len(each), len(numbers)), dtype=bool)
    for row, texts in zip(held, each, strict=True):
        own_pieces = _piece_numbers(texts, size)
        if len(own_pieces):
            place = np.minimum(np.searchsorted(own_pieces, numbers), len(own_pieces) - 1)
            row[:] = own_pieces[place] == numbers
    return held


KEPT = (_piece_numbers, _spaced)
"""What keeps words of texts in the process's memory."""
