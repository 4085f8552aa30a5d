"""What the embedded model has read of the beginnings of its prompts, kept on disk.

A file holds the state of one slot of llama.cpp's server, saved right after it had read the fixed
beginning of a prompt and a neutral word: instructions, tools and examples, and nothing that a
person has said. The server trusts such a file, and a damaged one ends its process. So a file's
name holds the hash of its bytes, and a file that does not have it is deleted and made anew. The
name also holds a hash of all that the state depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from service.domain.conversation.messages import Message

log = logging.getLogger(__name__)

Opening = tuple[Message, ...]
"""How all prompts of a kind begin. Its last message may go on in them."""

FOLDER = "prompt-states"
"""In the data folder."""
_MOST_FILES = 8
_DIGITS = 32


class PromptStates:
    """The files of one model. All methods block; a folder that cannot be used is as an empty one.

    One process at a time writes: the one that owns the data folder.
    """

    def __init__(self, folder: Path, model: str, made_with: Sequence[str]) -> None:
        """Name the folder. Does no I/O.

        Args:
            folder: made by the server.
            model: the model's name.
            made_with: what a state depends on besides the prompt: weights, library, machine.
        """
        self.folder = folder
        self._model = model
        self._made_with = list(made_with)
        name = re.escape(model)
        self._ours = re.compile(
            rf"{name}\.(?P<key>[0-9a-f]{{{_DIGITS}}})\.(?:(?P<hash>[0-9a-f]{{{_DIGITS}}})\.state|part)"
        )

    def find(self, opening: Opening) -> str | None:
        """The name of the whole file of an opening; what is damaged of it is deleted."""
        key = self._key(opening)
        whole = None
        for file in self._files(key):
            match = self._ours.fullmatch(file.name)
            assert match is not None
            if whole is None and match["hash"] and _hash(file) == match["hash"]:
                whole = file.name
            else:
                _delete(file)
        return whole

    def unfinished(self, opening: Opening) -> str:
        """The name of the file into which the server is to write the state."""
        return f"{self._model}.{self._key(opening)}.part"

    def keep(self, opening: Opening) -> None:
        """Give the file that the server has written its name."""
        part = self.folder / self.unfinished(opening)
        try:
            part.rename(part.with_name(f"{part.stem}.{_hash(part)}.state"))
        except OSError as error:
            log.warning("what the model has read of its prompt cannot be kept: %s", error)
            _delete(part)

    def discard(self, opening: Opening) -> None:
        """Delete what the server could not write to its end: it would take room for nothing."""
        _delete(self.folder / self.unfinished(opening))

    def keep_only(self, openings: Sequence[Opening]) -> None:
        """Delete the files of this model's other openings, and the oldest of other models'."""
        kept = {self._key(opening) for opening in openings}
        for file in self._files():
            match = self._ours.fullmatch(file.name)
            if match is not None and match["key"] not in kept:
                _delete(file)
        states = sorted(_listed(self.folder, "*.state"), key=_age)
        for file in states[_MOST_FILES:]:
            _delete(file)

    def _key(self, opening: Opening) -> str:
        words = [[each.role, each.text] for each in opening]
        identity = json.dumps([self._model, self._made_with, words], ensure_ascii=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]

    def _files(self, key: str = "") -> list[Path]:
        candidates = ((file, self._ours.fullmatch(file.name)) for file in _listed(self.folder, "*"))
        return [file for file, match in candidates if match and key in ("", match["key"])]


def folder_bytes(folder: Path) -> int:
    """How much room the files in a folder take."""
    total = 0
    for file in _listed(folder, "*"):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            total += file.stat().st_size
    return total


def begins_with(prompt: Sequence[Message], opening: Opening) -> bool:
    """Whether a prompt begins with an opening."""
    last = len(opening) - 1
    return (
        len(prompt) > last >= 0
        and all(_same(prompt[place], opening[place]) for place in range(last))
        and prompt[last].role == opening[last].role
        and prompt[last].text.startswith(opening[last].text)
    )


def _same(one: Message, other: Message) -> bool:
    return one.role == other.role and one.text == other.text


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        return [file for file in sorted(folder.glob(pattern)) if file.is_file()]
    except OSError:
        return []


def _age(file: Path) -> float:
    try:
        return -file.stat().st_mtime
    except OSError:
        return 0.0


def _hash(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()[:_DIGITS]
    except OSError as error:
        log.warning("%s cannot be read: %s", file, error)
        return ""


def _delete(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be deleted: %s", file, error)
