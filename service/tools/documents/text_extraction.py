"""The process that takes the text out of a document: run by its path, in a sandbox.

It knows the standard library and the libraries that read documents, and nothing of Rondo. Standard
input holds a line of JSON, ``{"pages": [1, 50] or null, "sheet": "…", "most_characters": …,
"seconds": …, "paths": […]}``, and after it the document. Standard output is given a line of JSON:
``{"text": "…", "what": "…", "more": "…"}``, or ``{"problem": "…"}`` in words for the model.

Whatever a document does to it, such as endless pages or unpacked gigabytes, ends in a problem, or
in the end of this process; what it may use up is bounded from outside.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Iterator
from typing import Any

_MOST_UNPACKED = 500_000_000  # bytes
_MOST_ENTRIES = 20_000
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_PACKAGES = {"docx": "python-docx", "python_calamine": "python-calamine"}
_SPREADSHEETS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")

Answer = dict[str, str]


class Problem(Exception):
    """Why there is no text; in words for the model."""


class Written:
    """Lines of text, until they are too many or the time is up."""

    def __init__(self, most_characters: int, until: float) -> None:
        self.lines: list[str] = []
        self.why = ""
        """Why it ends before its end."""
        self._left = most_characters
        self._until = until

    def add(self, line: str) -> bool:
        """Add a line; whether there is room and time for more."""
        self._left -= len(line) + 1
        if self._left < 0:
            self.why = "it is too long to be given whole"
            return False
        self.lines.append(line)
        if time.monotonic() > self._until:
            self.why = "it takes too long to read"
            return False
        return True


def main() -> None:
    """Read what is asked for, and answer."""
    request = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    sys.path += request["paths"]
    try:
        answer = _extracted(data, request)
    except Problem as problem:
        answer = {"problem": str(problem)}
    except MemoryError:
        answer = {"problem": "reading it takes too much memory"}
    except RecursionError:
        answer = {"problem": "it is nested too deeply"}
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(str(error.name), error.name)
        answer = {"problem": f"the Python package {package}, which reads it, is not installed"}
    except Exception as error:  # noqa: BLE001 - a library's own, of whatever kind
        answer = {"problem": f"it is broken, or of a kind that is not known ({error!s:.200})"}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")


def _extracted(data: bytes, request: dict[str, Any]) -> Answer:
    written = Written(request["most_characters"], time.monotonic() + request["seconds"])
    if b"%PDF-" in data[:1024]:
        return _pdf(data, request["pages"], written)
    if data.startswith(b"PK\x03\x04"):
        names = _entries(data)
        if "word/document.xml" in names:
            return _word(data, written)
        if any(each in names for each in _SPREADSHEETS):
            return _sheet(data, request["sheet"], written)
        raise Problem("it is an archive, or a document of a kind that is not read")
    try:
        return _sheet(data, request["sheet"], written)  # .xls
    except (Problem, ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:
        raise Problem("it is of an old kind that is not read, such as .doc or .ppt") from error


def _entries(data: bytes) -> set[str]:
    """The names in an archive that may be unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    if len(entries) > _MOST_ENTRIES or sum(each.file_size for each in entries) > _MOST_UNPACKED:
        raise Problem("unpacked it would be too large")
    return {each.filename for each in entries}


# --- PDF


def _pdf(data: bytes, pages: list[int] | None, written: Written) -> Answer:
    from pypdf import PasswordType, PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise Problem("it is locked with a password")
    count = len(reader.pages)
    first, last = pages or [1, count]
    if first > count:
        raise Problem(f"it has {count:,} pages")
    last = min(last, count)
    has_text = False
    at = first
    for at in range(first, last + 1):
        text = reader.pages[at - 1].extract_text()
        has_text = has_text or bool(text.strip())
        if not all(map(written.add, (f"[page {at}]", *text.splitlines()))):
            break
    if not has_text:
        raise Problem(f"pages {first} to {at} hold no text: they may be pictures of it")
    what = f"pages {first:,} to {at:,} of {count:,}"
    more = f'pages="{at + 1}-{min(at + last - first + 1, count)}"' if at < count else ""
    return _answer(written, what, more)


# --- Word


def _word(data: bytes, written: Written) -> Answer:
    from docx import Document

    for line in _blocks(Document(io.BytesIO(data)).element.body):
        if not written.add(line):
            break
    return _answer(written, "a Word document", "")


def _blocks(body: Any) -> Iterator[str]:
    """The paragraphs, and the rows of tables, as lines."""
    for each in body.iterchildren():
        if each.tag == f"{_WORD}p":
            yield from (_heading(each) + _words(each)).split("\n")
        elif each.tag == f"{_WORD}tbl":
            for row in each.iterchildren(f"{_WORD}tr"):
                cells = row.iterchildren(f"{_WORD}tc")
                yield " | ".join(" ".join(_words(cell).split()) for cell in cells)
        elif each.tag == f"{_WORD}sdt":  # a field to be filled in, or a table of contents
            for content in each.iterchildren(f"{_WORD}sdtContent"):
                yield from _blocks(content)


def _words(element: Any) -> str:
    """The words within an element, inserted ones too, without those that were deleted."""
    pieces: list[str] = []

    def collect(node: Any) -> None:
        for each in node.iterchildren():
            if each.tag == f"{_WORD}t":
                pieces.append(each.text or "")
            elif each.tag == f"{_WORD}tab":
                pieces.append("\t")
            elif each.tag in (f"{_WORD}br", f"{_WORD}cr"):
                pieces.append("\n")
            elif each.tag not in (f"{_WORD}pPr", f"{_WORD}del", _FALLBACK):
                collect(each)
                if each.tag == f"{_WORD}p":
                    pieces.append(" ")

    collect(element)
    return "".join(pieces)


def _heading(paragraph: Any) -> str:
    """The mark of a heading, by its style: ``# `` and so on."""
    style = paragraph.find(f"{_WORD}pPr/{_WORD}pStyle")
    name = "" if style is None else str(style.get(f"{_WORD}val") or "")
    level = name.removeprefix("Heading")
    if name == "Title":
        return "# "
    return "#" * int(level) + " " if level != name and level.isdecimal() and int(level) < 7 else ""


# --- spreadsheets


def _sheet(data: bytes, name: str, written: Written) -> Answer:
    from python_calamine import CalamineWorkbook, PasswordError

    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    except PasswordError as error:
        raise Problem("it is locked with a password") from error
    names = book.sheet_names
    if not names:
        raise Problem("it has no sheets")
    sheet = book.get_sheet_by_index(_place_of(name, names))
    before = "\t" * (sheet.start[1] if sheet.start is not None else 0)
    for number, row in enumerate(sheet.iter_rows(), 1):
        cells = "\t".join(map(_cell, row)).rstrip("\t")
        if cells and not written.add(f"{number}\t{before}{cells}"):
            break
    others = [each for each in names if each != sheet.name]
    what = f"sheet {sheet.name!r}: the number of a row, then its cells, with tabs between them"
    more = f"sheet= one of {', '.join(map(repr, others))[:1000]}" if others else ""
    return _answer(written, what, more)


def _place_of(name: str, names: list[str]) -> int:
    if not name:
        return 0
    if name in names:
        return names.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    raise Problem(f"it has no sheet {name[:100]!r}, but {', '.join(map(repr, names))[:1000]}")


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if hasattr(value, "isoformat"):
        text = str(value.isoformat())
        return text.removesuffix("T00:00:00")
    return str(value).replace("\t", " ").replace("\r\n", "\n").replace("\n", " / ")


def _answer(written: Written, what: str, more: str) -> Answer:
    if written.why:
        what = f"{what}, not to the end: {written.why}"
    return {"text": "\n".join(written.lines), "what": what, "more": more}


if __name__ == "__main__":
    main()
