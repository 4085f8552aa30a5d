"""What the benchmarks have in common: their options' values, their sets of data, percentiles, and
what they say when they cannot measure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import click

from service.domain.errors import RondoError

Arm = Literal["lexical", "dense", "hybrid"]
ARMS: tuple[Arm, ...] = ("lexical", "dense", "hybrid")
"""The ways to search: by words alone, by vectors alone, by both."""
_SMALLEST = 100


class BenchmarkError(RondoError):
    """Something cannot be measured."""

    kind = "benchmark"
    title = "The benchmark could not run"


def find_sets(
    folder: Path,
    patterns: Sequence[str],
    *,
    kind: str,
    is_set: Callable[[Path], bool],
    shape: str,
) -> list[Path]:
    """The folders of sets, by name.

    Args:
        folder: of one set, of folders of sets, or of a folder named `kind` of such.
        patterns: only the sets of these names; patterns such as ``irc-*`` do. None: all.
        kind: of data.
        is_set: whether a folder is a set.
        shape: what a set is, in words.

    Raises:
        BenchmarkError: there are none, or none of a wanted name.
    """
    if not folder.is_dir():
        raise BenchmarkError(f"there is no folder {folder}", advice=shape)
    if (folder / kind).is_dir() and not is_set(folder):
        folder = folder / kind
    inside = [each for each in sorted(folder.iterdir()) if each.is_dir()]
    sets = [folder] if is_set(folder) else list(filter(is_set, inside))
    names = {each: each.resolve().name for each in sets}
    if not sets:
        raise BenchmarkError(f"there is no set in {folder}", advice=shape)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names.values()):
            raise BenchmarkError(
                f"there is no set {pattern} in {folder}",
                advice=f"There are: {', '.join(names.values())}.",
            )
    return [
        each
        for each, name in names.items()
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


class Arms(click.ParamType[tuple[str, ...]]):
    """Names of arms, separated by commas."""

    name = "arms"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Read them, or fail with words."""
        named = [each.strip() for each in str(value).split(",")]
        for each in named:
            if each not in ARMS:
                self.fail(f"{each!r} is no arm. There are {', '.join(ARMS)}.", param, ctx)
        return tuple(dict.fromkeys(named))


class Sizes(click.ParamType[tuple[int, ...]]):
    """Numbers of segments, separated by commas."""

    name = "sizes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read them, or fail with words."""
        try:
            sizes = {int(each) for each in str(value).split(",")}
        except ValueError:
            self.fail(f"{value!r} are no numbers. Write 1000,10000.", param, ctx)
        if min(sizes) < _SMALLEST:
            self.fail(f"the smallest size is {_SMALLEST}.", param, ctx)
        return tuple(sorted(sizes))


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed, interpolated.

    Args:
        values: at least one.
        percent: 1 to 99.

    >>> percentile([1.0, 2.0, 3.0], 50), percentile([4.0], 95)
    (2.0, 4.0)
    """
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
