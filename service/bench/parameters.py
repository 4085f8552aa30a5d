"""Kinds of values that the benchmarks' options take."""

from __future__ import annotations

import click

ARMS = ("lexical", "dense", "hybrid")
"""The ways to search: by words alone, by vectors alone, by both."""
_SMALLEST = 100


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
