"""Finding sets of data: folders that a benchmark can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from service.bench.benchmark_error import BenchmarkError


def find_sets(
    folder: Path,
    wanted: Sequence[str],
    *,
    kind: str,
    is_set: Callable[[Path], bool],
    shape: str,
) -> list[Path]:
    """The folders of sets, by name.

    Args:
        folder: of one set, of folders of sets, or of a folder named `kind` of such.
        wanted: only the sets of these names; patterns such as ``irc-*`` do. None: all.
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
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names.values()):
            raise BenchmarkError(
                f"there is no set {pattern} in {folder}",
                advice=f"There are: {', '.join(names.values())}.",
            )
    return [
        each
        for each, name in names.items()
        if not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
    ]
