"""What differs between two states of a skill, as a unified difference that a person can judge."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LONGEST_COMPARED = 400_000
_MOST_LINES = 8_000
"""Of both files together: comparing takes longer by the square of it."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file at a time."""

    data: bytes
    may_run: bool = False


State = Mapping[str, FileState]
"""The files of a skill, by path."""


def difference(before: State, after: State) -> str:
    """A unified difference; empty where nothing differs.

    >>> print(difference({"a": FileState(b"tea\\n")}, {"a": FileState(b"Tea\\n")}), end="")
    --- a
    +++ a
    @@ -1 +1 @@
    -tea
    +Tea
    """
    return "".join(
        part
        for path in sorted({*before, *after})
        for part in _file(path, before.get(path), after.get(path))
    )


def _file(path: str, before: FileState | None, after: FileState | None) -> Iterator[str]:
    if before == after:
        return
    if before is not None and after is not None and before.may_run != after.may_run:
        yield f"{path} may {'now' if after.may_run else 'no longer'} be run\n"
        if before.data == after.data:
            return
    if before is None and after is not None and after.may_run:
        yield f"{path} may be run\n"
    names = (path if before else "/dev/null", path if after else "/dev/null")
    yield f"--- {names[0]}\n+++ {names[1]}\n"
    old, new = (state.data if state else b"" for state in (before, after))
    try:
        texts = (old.decode("utf-8"), new.decode("utf-8"))
    except UnicodeDecodeError:
        yield f"{len(old):,} bytes become {len(new):,}; they are no text\n"
        return
    lines = [text.splitlines(keepends=True) for text in texts]
    if len(old) + len(new) > _LONGEST_COMPARED or sum(map(len, lines)) > _MOST_LINES:
        yield f"{len(old):,} bytes become {len(new):,}; they are too long to be compared\n"
        return
    for number, line in enumerate(difflib.unified_diff(lines[0], lines[1], n=3)):
        if number >= 2:  # the names are above
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
