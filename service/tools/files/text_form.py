"""How a text file is written, so that what is changed in it stays written so."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Literal

from service.tools.files.text_decoding import decoded
from service.tools.protocol import ToolFailure

_MARKED = {"utf-8-sig": len(BOM_UTF8), "utf-16": 2, "utf-32": 4}
"""The encodings that begin with a mark, and its length in bytes."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """Encoding, byte order mark and line ends of a file."""

    encoding: str = "utf-8"
    mark: bytes = b""
    newline: Literal["\n", "\r\n"] = "\n"
    """``\\r\\n`` where every line ends so; the text of such a file is handled with ``\\n``."""

    def plain(self, text: str) -> str:
        """A text with the line ends in which those of such files are handled."""
        return text.replace("\r\n", "\n") if self.newline == "\r\n" else text

    def written(self, text: str) -> bytes:
        """A plain text as it stands in the file.

        Raises:
            UnicodeEncodeError: the encoding has no such character.
        """
        return self.mark + text.replace("\n", self.newline).encode(self.encoding)


def read_form(data: bytes, name: str) -> tuple[str, TextForm]:
    """The plain text of a whole file, and its form.

    >>> read_form(b"one\\r\\ntwo\\r\\n", "a.txt")
    ('one\\ntwo\\n', TextForm(encoding='utf-8', mark=b'', newline='\\r\\n'))

    Raises:
        ToolFailure: it is no text, or could not be written back byte for byte.
    """
    _, encoding = decoded(data, name)
    mark = data[: _MARKED.get(encoding, 0)]
    try:
        text = data[len(mark) :].decode(_without_mark(encoding, mark))
    except UnicodeDecodeError as error:
        raise ToolFailure(
            f"{name[:200]} seems to be {encoding}, but holds bytes that are not: it cannot be"
            " changed without harm. Tell the user."
        ) from error
    ends = text.count("\n")
    newline: Literal["\n", "\r\n"] = "\r\n" if ends and text.count("\r\n") == ends else "\n"
    form = TextForm(_without_mark(encoding, mark), mark, newline)
    plain = form.plain(text)
    if form.written(plain) != data:
        raise ToolFailure(
            f"{name[:200]} is written in a way ({encoding}) that cannot be kept. Tell the user."
        )
    return plain, form


def _without_mark(encoding: str, mark: bytes) -> str:
    if encoding == "utf-8-sig":
        return "utf-8"
    if encoding in ("utf-16", "utf-32"):
        return f"{encoding}-{'le' if mark[:1] == bytes([0xFF]) else 'be'}"
    return encoding
