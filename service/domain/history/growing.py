"""An immutable sequence that grows at its end without copying what is there.

A run loop's history grows by a message at each step, and each state keeps its own: as tuples, a
thousand steps would copy half a million references. Here the sequences that grew out of one another
share one list, of which each sees its own beginning.

>>> short = Growing([1, 2])
>>> longer, other = short.plus(3), short.plus(4)
>>> list(short), list(longer), list(other)
([1, 2], [1, 2, 3], [1, 2, 4])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

T = TypeVar("T")


class Growing(Sequence[T]):
    """A sequence that never changes; `plus` gives a longer one, in time for what is added."""

    __slots__ = ("_length", "_shared")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._shared: list[T] = list(items)
        self._length = len(self._shared)

    def plus(self, *items: T) -> Growing[T]:
        """This sequence and these items after it."""
        # The list can be shared only by one successor: another one needs its own.
        shared = self._shared
        if len(shared) != self._length:
            shared = shared[: self._length]
        shared.extend(items)
        longer: Growing[T] = Growing.__new__(Growing)
        longer._shared = shared
        longer._length = self._length + len(items)
        return longer

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return (
                self._shared[start:stop:step] if step > 0 else self._shared[: self._length][index]
            )
        if not -self._length <= index < self._length:
            raise IndexError("index out of range")
        return self._shared[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[T]:
        return islice(self._shared, self._length)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Growing({list(self)!r})"
