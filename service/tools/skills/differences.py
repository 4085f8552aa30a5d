"""What differs between two states of a skill, as a unified difference that a person can judge."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MOST_COMPARED = 4_000_000
"""Pairs of lines: comparing can take as long as there are."""


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
    old, new = (_lines(state) for state in (before, after))
    if len(old) * len(new) > _MOST_COMPARED:
        # Whole, then: a person must see all that there will be.
        yield f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        for sign, lines in (("-", old), ("+", new)):
            yield from (_ended(f"{sign}{line}") for line in lines)
        return
    for number, line in enumerate(difflib.unified_diff(old, new, n=3)):
        if number >= 2:  # the names are above
            yield _ended(line)


def _lines(state: FileState | None) -> list[str]:
    data = b"" if state is None else state.data
    try:
        return data.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        digest = hashlib.sha256(data).hexdigest()
        return [f"[{len(data):,} bytes that are no text, sha256:{digest[:16]}…]\n"]


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
