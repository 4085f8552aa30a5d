"""Listing and searching files in the folders that a person has granted."""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from service.tools.decorator import FunctionTool, tool
from service.tools.files.granted_folders import GrantedFolders, open_entry
from service.tools.files.text_decoding import decoded, is_binary
from service.tools.protocol import ToolFailure

NAMES = ("list_files", "search_files")
_MOST_LISTED = 500
_MOST_HITS = 100
_MOST_LOOKED_AT = 20_000  # files
_LONGEST_SEARCHED = 5_000_000  # bytes
_SEARCH_SECONDS = 15.0
_SHOWN_OF_A_LINE = 200
_SKIPPED = frozenset(("node_modules", "__pycache__"))


def file_tools(granted: GrantedFolders) -> tuple[FunctionTool, ...]:
    """`list_files` and `search_files` over granted folders."""

    @tool(effect="read_only", outside=True)
    def list_files(
        folder: Annotated[str, Field(description="Empty for all granted folders.")] = "",
    ) -> str:
        """List what is in a folder that the person granted: names, sizes in bytes, dates."""
        if not folder.strip() and len(granted.folders) > 1:
            return "Granted folders:\n" + "\n".join(str(each) for each in granted.folders)
        with granted.folder(folder) as (opened, path):
            entries = sorted(os.scandir(opened), key=lambda each: each.name)
            is_hidden = granted.hiding()
            rows = [_row(each) for each in entries if not is_hidden(path / each.name)]
        left_out = len(rows) - _MOST_LISTED
        more = [f"… and {left_out:,} more"] if left_out > 0 else []
        return "\n".join((f"{path}:", *(rows[:_MOST_LISTED] or ["(empty)"]), *more))

    @tool(effect="read_only", timeout_seconds=_SEARCH_SECONDS + 15, outside=True)
    def search_files(
        query: Annotated[
            str, Field(min_length=1, description="What stands in the name or in a line, as it is.")
        ],
        folder: Annotated[str, Field(description="Empty for all granted folders.")] = "",
    ) -> str:
        """Find files of the person's by their names and by the lines in them."""
        wanted = _folded(query.strip())
        if not wanted:
            raise ToolFailure("query is blank.")
        search = _Search(wanted, granted)
        for place in [folder] if folder.strip() else map(str, granted.folders):
            with granted.folder(place) as (opened, path):
                search.look_through(opened, path)
        return search.told(query)

    return list_files, search_files


def _row(entry: os.DirEntry[str]) -> str:
    name = entry.name.encode("utf-8", "replace").decode("utf-8")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return f"{name}  (cannot be read)"
    at = f"{datetime.fromtimestamp(status.st_mtime).astimezone():%Y-%m-%d %H:%M}"
    if stat.S_ISLNK(status.st_mode):
        return f"{name}  (a link)  {at}"
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/  {at}"
    return f"{name}  {status.st_size:,}  {at}"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


class _Search:
    """A way through folders, bounded in time, files and hits."""

    def __init__(self, wanted: str, granted: GrantedFolders) -> None:
        self._wanted = wanted
        self._is_hidden = granted.hiding()
        self._until = time.monotonic() + _SEARCH_SECONDS
        self._hits: list[str] = []
        self._files = 0
        self._skipped = 0

    def look_through(self, opened: int, path: Path) -> None:
        """Look through an open folder, and those in it; links are not followed."""
        for folder, folders, names, descriptor in os.fwalk(
            ".", dir_fd=opened, follow_symlinks=False
        ):
            here = Path(os.path.normpath(path / folder))
            folders[:] = sorted(
                each
                for each in folders
                if not each.startswith(".")
                and each not in _SKIPPED
                and not self._is_hidden(here / each)
            )
            for name in sorted(names):
                if self._is_over():
                    return
                if self._is_hidden(here / name):
                    continue
                self._files += 1
                if self._wanted in _folded(name):
                    self._hits.append(f"{here / name}")
                self._hits += [f"{here / name}:{hit}" for hit in self._lines(descriptor, name)]

    def told(self, query: str) -> str:
        """What was found, in words."""
        notes = [f"{self._files:,} files looked at"]
        if self._skipped:
            notes.append(f"{self._skipped:,} of them only by name: no text, or too large")
        if self._is_over():
            notes.append("not all were: look in a folder of them, or for something rarer")
        end = f"[{'; '.join(notes)}.]"
        if not self._hits:
            return f"Nothing was found for {query!r}. {end}"
        found = "\n".join(self._hits[:_MOST_HITS])
        return f"{found.encode('utf-8', 'replace').decode()}\n\n{end}"

    def _is_over(self) -> bool:
        return (
            len(self._hits) >= _MOST_HITS
            or self._files >= _MOST_LOOKED_AT
            or time.monotonic() > self._until
        )

    def _lines(self, folder: int, name: str) -> Iterator[str]:
        with suppress(OSError):
            opened = open_entry(folder, name)
            with os.fdopen(opened, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return
                data = file.read(_LONGEST_SEARCHED + 1)
            if len(data) > _LONGEST_SEARCHED or is_binary(data[:8192]):
                self._skipped += 1
                return
            text, _ = decoded(data, name)
            if self._wanted not in _folded(text):
                return
            for number, line in enumerate(text.splitlines(), 1):
                if self._wanted in _folded(line):
                    yield f"{number}: {line.strip()[:_SHOWN_OF_A_LINE]}"
