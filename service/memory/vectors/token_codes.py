"""States of tokens at a bit a dimension, and how near those of a question come to them.

Of each state only the signs are kept, 48 bytes for 384 dimensions. Signs say the more the more
evenly a state's length is spread over its dimensions, and a transformer's are not: so all states
are turned first, by a Hadamard matrix with columns of changed sign (Ailon and Chazelle 2009, "The
fast Johnson-Lindenstrauss transform"). It holds whole numbers only and is the same on any machine.
A question's states are turned as well and keep their numbers: the comparison is the asymmetric one
of Jegou et al. 2011, "Product quantization for nearest neighbor search".

Tokens that are to be expected anywhere ("the", a comma) are not kept, as a question's hardly count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from service.memory.memory_tuning import TOKEN_MATCHES
from service.memory.protocol import TokenStates, Vectors

FORMAT = f"signs of a Hadamard turn 1, from {TOKEN_MATCHES.kept_from} nats"
"""Names what `encode_all` does: codes of two formats never mix."""


def encode(states: Vectors) -> bytes:
    """The codes of a text's tokens: the signs of each turned state, packed, one after the other."""
    return np.packbits(_turned(states) > 0, axis=1).tobytes()


def encode_all(texts: Sequence[TokenStates]) -> list[bytes]:
    """The codes of those tokens of each text that are kept.

    All are turned in one product: its threads cost more than it does.
    """
    kept = [_kept(each) for each in texts]
    codes = encode(np.concatenate(kept))
    size = kept[0].shape[1] // 8
    ends = size * np.cumsum([len(states) for states in kept])
    return [codes[end - size * len(states) : end] for states, end in zip(kept, ends, strict=True)]


def _kept(text: TokenStates) -> Vectors:
    """The states of the tokens that say enough, in their order; of a short text, some that say
    less."""
    fewest = min(len(text.information), TOKEN_MATCHES.fewest_kept)
    least = TOKEN_MATCHES.kept_from
    if fewest:
        least = min(least, float(np.sort(text.information)[-fewest]))
    kept: Vectors = text.states[text.information >= least]
    return kept


def best_matches(states: Vectors, passages: Sequence[bytes]) -> Vectors:
    """How near each token of a question comes to the nearest token of each passage (ColBERT's
    MaxSim, before it is summed: Khattab and Zaharia 2020).

    Args:
        states: of the question, shape (tokens, dimension), each row of length 1.
        passages: codes of each, at least one token in all of them.

    Returns:
        Estimated cosines, shape (tokens, passages); too small by about a fifth, all of them.
    """
    size = states.shape[1] // 8
    turned = _turned(states)
    ends = np.cumsum([len(each) // size for each in passages])
    bits = np.unpackbits(
        np.frombuffer(b"".join(passages), dtype=np.uint8).reshape(-1, size), axis=1
    )
    # A sign is twice the bit less one.
    products = 2 * (bits.astype(np.float32) @ turned.T) - turned.sum(axis=1)
    begins = np.concatenate([[0], ends[:-1]])
    best: Vectors = np.maximum.reduceat(products, begins, axis=0).T / np.sqrt(states.shape[1])
    return best


def _turned(states: Vectors) -> Vectors:
    turned: Vectors = states @ _turn(states.shape[1])
    return turned


@cache
def _turn(dimension: int) -> Vectors:
    """An orthogonal matrix of one absolute value, where one of this order is easily made; else
    nothing is turned."""
    hadamard = _hadamard(dimension)
    if hadamard is None:
        return np.eye(dimension, dtype=np.float32)
    drawn = hashlib.shake_128(b"signs of the columns").digest(dimension)
    signs = np.where(np.frombuffer(drawn, dtype=np.uint8) & 1, 1, -1)
    turn: Vectors = (hadamard * signs[:, None] / np.sqrt(dimension)).astype(np.float32)
    return turn


def _hadamard(order: int) -> npt.NDArray[np.int64] | None:
    """Sylvester's doublings of the matrix of order 1, or of Paley's of order 12."""
    matrix = np.ones((1, 1), dtype=np.int64) if order & (order - 1) == 0 else _paley()
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix if len(matrix) == order else None


def _paley(prime: int = 11) -> npt.NDArray[np.int64]:
    """Paley's first construction: by which differences are squares modulo the prime."""
    squares = {number * number % prime for number in range(1, prime)}
    matrix = np.ones((prime + 1, prime + 1), dtype=np.int64)
    for row in range(prime):
        for column in range(prime):
            is_square = (column - row) % prime in squares
            matrix[row + 1, column + 1] = 1 if is_square else -1
    matrix[1:, 0] = 1
    return matrix
