"""A second engine behind the vector index: all vectors in a dict, compared one by one."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from service.domain.errors import ConflictError, IndexDamagedError
from service.memory.protocol import Vectors
from service.memory.vectors.protocol import IndexEntry, Nearest, VectorIndex, as_matrix

Held = dict[int, tuple[str, bytes]]
"""Owner and vector by the segment's number."""


class ExactIndex:
    """A `VectorIndex` that finds the nearest without fail, or only when it is asked for many."""

    def __init__(self, held: Held, *, sees_from: int = 1) -> None:
        """Look at `held`.

        Args:
            held: what is in it.
            sees_from: a search for fewer misses the nearest, as a graph of crowds far from each
                other does.
        """
        self._held = held
        self._sees_from = sees_from
        self._lock = threading.Lock()
        self._closed = False

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """See `VectorIndex.add`."""
        with self._lock:
            self._check_open()
            for number, owner, vector in entries:
                self._held.setdefault(number, (owner, vector))

    def search(self, vectors: Vectors, *, owner: str, limit: int) -> list[list[Nearest]]:
        """See `VectorIndex.search`."""
        with self._lock:
            self._check_open()
            mine = {n: each for n, (whose, each) in self._held.items() if whose == owner}
        if not mine:
            return [[] for _ in vectors]
        numbers, nearest = list(mine), []
        for cosines in vectors @ as_matrix(list(mine.values())).T:
            missed = 0 if limit >= self._sees_from else 1
            best = np.argsort(-cosines, kind="stable")[missed : missed + limit].tolist()
            nearest.append([Nearest(numbers[row], float(cosines[row])) for row in best])
        return nearest

    def delete(self, numbers: Sequence[int], *, owner: str | None) -> None:
        """See `VectorIndex.delete`."""
        with self._lock:
            self._check_open()
            for number in numbers:
                if number in self._held and owner in (None, self._held[number][0]):
                    del self._held[number]

    def count(self) -> int:
        """See `VectorIndex.count`."""
        return len(self.numbers())

    def numbers(self) -> set[int]:
        """See `VectorIndex.numbers`."""
        with self._lock:
            self._check_open()
            return set(self._held)

    def close(self) -> None:
        """See `VectorIndex.close`."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ConflictError("the vector index was just replaced", advice="Try again.")


class ExactPlace:
    """An `IndexPlace` in this process's memory."""

    name = "in memory"

    def __init__(self, *, sees_from: int = 1) -> None:
        """See `ExactIndex`."""
        self.generations: dict[int, Held] = {}
        self._sees_from = sees_from

    def open(self, generation: int) -> VectorIndex:
        """See `IndexPlace.open`."""
        held = self.generations.setdefault(generation, {})
        return ExactIndex(held, sees_from=self._sees_from)

    def exists(self, generation: int) -> bool:
        """See `IndexPlace.exists`."""
        return generation in self.generations

    def identity(self, generation: int) -> str:
        """See `IndexPlace.identity`."""
        return str(generation) if generation in self.generations else ""

    def fingerprint(self, generation: int) -> str:
        """See `IndexPlace.fingerprint`."""
        return ""

    def damage(self, generation: int) -> str | None:
        """See `IndexPlace.damage`."""
        return None

    def remove(self, generation: int) -> None:
        """See `IndexPlace.remove`."""
        self.generations.pop(generation, None)

    def set_aside(self, generation: int) -> str:
        """See `IndexPlace.set_aside`."""
        if self.generations.pop(generation, None) is None:
            raise IndexDamagedError(f"there is no generation {generation}")
        return "it was dropped"

    def set_aside_before(self) -> list[str]:
        """See `IndexPlace.set_aside_before`."""
        return []

    def remove_leftovers(self, generations: set[int], *, damaged: bool) -> None:
        """See `IndexPlace.remove_leftovers`."""
        for generation in self.generations.keys() - generations:
            del self.generations[generation]
