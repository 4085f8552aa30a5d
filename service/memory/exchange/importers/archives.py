"""Files to import from: what is in them, and their contents as a stream.

A file can be JSON Lines of Rondo's own, the ``conversations.json`` of another service, the ZIP
in which that was downloaded, or the folder into which it was unpacked. Nothing is unpacked to the
disk, and nothing is read as a whole.
"""

from __future__ import annotations

import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Literal

from service.domain.errors import InvalidInputError
from service.domain.json_values import writable
from service.domain.run_loops import RunLoop
from service.memory.exchange.importers.branches import run_loops_of
from service.memory.exchange.importers.chatgpt import read_chatgpt
from service.memory.exchange.importers.claude import read_claude
from service.memory.exchange.importers.message_pieces import BadConversationError, Conversation
from service.memory.exchange.importers.nesting import Nesting, UnparsableError
from service.memory.memory_tuning import IMPORT_NESTING

Format = Literal["rondo", "chatgpt", "claude"]
Reader = Callable[[dict[str, Any]], Conversation]
Source = Callable[[], IO[bytes]]

READERS: Mapping[Format, Reader] = {"chatgpt": read_chatgpt, "claude": read_claude}
_MEMBER = re.compile(r"(?:^|/)conversations(?:[-_]\d+)?\.json$")
_HEAD_BYTES = 1_000_000
_CHUNK_BYTES = 256_000
_ZIP = b"PK\x03\x04"
_BOM = b"\xef\xbb\xbf"
# A quote that stands in a text is escaped there: these are names of members.
_SIGNS: tuple[tuple[Format, re.Pattern[bytes]], ...] = (
    ("chatgpt", re.compile(rb'(?<!\\)"mapping"\s*:')),
    ("claude", re.compile(rb'(?<!\\)"chat_messages"\s*:')),
)
_OWN = re.compile(rb'(?<!\\)"iterations"\s*:')
_OBJECT = re.compile(rb'\s*\{\s*(?:"|\}|$)')
_WRAPPED = re.compile(rb'^\s*\{\s*"conversations"\s*:\s*\[')
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class ArchivedConversation:
    """A conversation of an archive, or why it cannot be read."""

    number: int
    """From 1, over all files of the archive."""
    title: str
    run_loops: tuple[RunLoop, ...]
    problem: str | None = None


class Archive:
    """A file that is open for reading, within ``with``."""

    def __init__(self, path: Path | None, stdin: IO[bytes], requested: Format | None) -> None:
        """Name it; `path` None: it comes from `stdin`. `requested` None: the contents tell."""
        self._path = path
        self._stdin = stdin
        self._requested = requested
        self._stack = ExitStack()
        self._sources: list[Source] = []
        self._begun: _Stream | None = None
        self.format: Format = requested or "rondo"
        self.size: int | None = None
        """In bytes, once it is unpacked; None where that cannot be known."""
        self.read = 0
        """How many of them have been read."""

    def __enter__(self) -> Archive:
        """Open it, and look at its beginning.

        Raises:
            InvalidInputError: it cannot be read, or holds nothing that can be imported.
        """
        try:
            self._open()
            if self._requested is None:
                self.format = self._look()
        except OSError as error:
            self._stack.close()
            raise InvalidInputError(
                f"{self._path or 'the standard input'}: {error.strerror or error}",
                title="The file cannot be read",
                advice="Give the file, the ZIP or the folder that you have downloaded.",
            ) from error
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def chunks(self) -> Iterator[bytes]:
        """The bytes of JSON Lines.

        Raises:
            InvalidInputError: the archive is damaged.
        """
        for stream in self._opened():
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk

    def conversations(self) -> Iterator[ArchivedConversation]:
        """The conversations of an archive of another service, one after another.

        One that cannot be read is told, and the others follow. Where the file itself breaks off,
        that is told as the last one.

        Raises:
            InvalidInputError: the archive is damaged.
        """
        import ijson  # not needed for Rondo's own format

        number = 0
        for stream in self._opened():
            values = ijson.items(_BoundedReader(stream), _prefix(stream))
            while True:
                number += 1
                try:
                    value = _with_floats(next(values))
                except StopIteration:
                    number -= 1
                    break
                except UnparsableError as error:
                    yield ArchivedConversation(number, "", (), str(error))
                    break
                except (ijson.JSONError, ValueError) as error:
                    words = f"the file is damaged or breaks off here: {_short(error)}"
                    yield ArchivedConversation(number, "", (), words)
                    break
                yield self._found(number, value)

    def _found(self, number: int, value: object) -> ArchivedConversation:
        if not isinstance(value, dict):
            return ArchivedConversation(number, "", (), "it is not a conversation")
        title = str(value.get("title") or value.get("name") or "")
        try:
            return ArchivedConversation(
                number, title, tuple(run_loops_of(READERS[self.format](value)))
            )
        except BadConversationError as error:
            return ArchivedConversation(number, title, (), str(error))
        except Exception as error:  # noqa: BLE001  one odd conversation keeps none of the others out
            words = f"it is of a form that is not known ({type(error).__name__}: {_short(error)})"
            return ArchivedConversation(number, title, (), words)

    def _open(self) -> None:
        if self._path is None:
            self._sources = [lambda: self._stdin]
        elif self._path.is_dir():
            files = sorted(each for each in self._path.iterdir() if _MEMBER.search(each.name))
            self._need(files, "a folder with conversations.json in it")
            self._sources = [_opener(file) for file in files]
            self.size = sum(file.stat().st_size for file in files)
        elif self._path.is_file() and zipfile.is_zipfile(self._path):  # a pipe is read once
            self._open_zip(self._path)
        else:
            self._sources = [_opener(self._path)]
            self.size = self._path.stat().st_size if self._path.is_file() else None

    def _open_zip(self, path: Path) -> None:
        try:
            archive = self._stack.enter_context(zipfile.ZipFile(path))
        except _BROKEN_ZIP as error:
            raise _damaged(error) from error
        members = sorted(
            (each for each in archive.infolist() if _is_wanted(each.filename)),
            key=lambda each: each.filename,
        )
        self._need(members, "a ZIP with conversations.json in it")
        self.size = sum(each.file_size for each in members)

        def opener(member: zipfile.ZipInfo) -> Source:
            return lambda: archive.open(member)

        self._sources = [opener(member) for member in members]

    def _need(self, members: list[Any], expected: str) -> None:
        if not members:
            raise InvalidInputError(
                f"{self._path} holds no conversations",
                title="There is nothing to import",
                advice=f"Give {expected}, as the service lets you download it.",
            )

    def _look(self) -> Format:
        """What the first file holds."""
        first = self._stream(self._sources[0])
        self._begun = first
        head = first.peek(_HEAD_BYTES)
        if head.startswith(_ZIP) and self._path is not None and self._path.is_file():
            raise InvalidInputError(
                f"{self._path}: the ZIP is damaged or not wholly downloaded",
                title="The file cannot be read",
                advice="Download it again.",
            )
        if head.startswith(_ZIP):
            raise InvalidInputError(
                "a ZIP cannot be read from the standard input or another pipe",
                title="The file cannot be read",
                advice="Give the name of the ZIP instead.",
            )
        head = head.lstrip()
        signs = [name for name, sign in _SIGNS if sign.search(head)]
        if head.startswith(b"{") and _OWN.search(head):
            return "rondo"
        if signs:
            return signs[0]
        is_list = head.startswith(b"[")
        if head.strip(b"[] \r\n\t") and (is_list or not _are_objects(head)):
            raise InvalidInputError(
                f"{self._path or 'the standard input'} is neither an export of Rondo (JSON Lines,"
                " a run loop a line) nor an archive of ChatGPT or Claude",
                title="There is nothing to import",
                advice="Give the file, the ZIP or the folder that was exported; if it is one all"
                " the same, say which with --format.",
            )
        return "chatgpt" if is_list else "rondo"

    def _opened(self) -> Iterator[_Stream]:
        begun, self._begun = self._begun, None
        for index, source in enumerate(self._sources):
            stream = begun if begun is not None and index == 0 else self._stream(source)
            yield stream
            stream.close()

    def _stream(self, source: Source) -> _Stream:
        def count(size: int) -> None:
            self.read += size

        try:
            stream = _Stream(source(), count)
        except _BROKEN_ZIP as error:
            raise _damaged(error) from error
        self._stack.callback(stream.close)
        return stream


class _Stream:
    """Bytes whose beginning can be looked at; they are counted, and a byte order mark is left out.

    Raises:
        InvalidInputError: (when it is read) a ZIP turns out to be damaged.
    """

    def __init__(self, opened: IO[bytes], count: Callable[[int], None]) -> None:
        self._opened = opened
        self._count = count
        self._held = b""
        self.peek(len(_BOM))
        self._held = self._held.removeprefix(_BOM)

    def peek(self, size: int) -> bytes:
        """The first bytes, which stay to be read; less only where there is no more."""
        while len(self._held) < size and (more := self._next(_CHUNK_BYTES)):
            self._held += more
        return self._held[:size]

    def read(self, size: int = -1) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        bound = _CHUNK_BYTES if size < 0 else size
        if self._held or not bound:
            given, self._held = self._held[:bound], self._held[bound:]
            return given
        return self._next(bound)

    def close(self) -> None:
        """Give the file back; not the standard input, which is not ours."""
        if self._opened is not sys.stdin.buffer:
            self._opened.close()

    def _next(self, size: int) -> bytes:
        try:
            data = self._opened.read(size)
        except _BROKEN_ZIP as error:
            raise _damaged(error) from error
        self._count(len(data))
        return data


class _BoundedReader:
    """A stream of JSON that ends with an error where the parser could not take it.

    Raises:
        UnparsableError: (when it is read) it cannot be parsed from here on.
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._nesting = Nesting(IMPORT_NESTING)
        self._error: UnparsableError | None = None

    def read(self, size: int = -1) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        if self._error is not None:
            raise self._error
        piece = self._stream.read(size)
        try:
            self._nesting.check(piece)
        except UnparsableError as error:  # what stands before it in the same piece is good
            self._error = error
            return self.read() if not error.before else piece[: error.before]
        return piece


def _prefix(stream: _Stream) -> str:
    """Where the conversations are: in a list, in a list of an object, or there is only one."""
    head = stream.peek(_HEAD_BYTES)
    if _WRAPPED.search(head):
        return "conversations.item"
    return "" if head.lstrip().startswith(b"{") else "item"


def _are_objects(head: bytes) -> bool:
    """Whether most lines begin as JSON objects do: an export with some bad lines is still one."""
    lines = [line for line in head.splitlines() if line.strip()]
    return sum(_OBJECT.match(line) is not None for line in lines) * 2 >= len(lines)


def _opener(file: Path) -> Source:
    return lambda: file.open("rb")


def _is_wanted(name: str) -> bool:
    return _MEMBER.search(name) is not None and not name.startswith("__MACOSX/")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _damaged(error: Exception) -> InvalidInputError:
    words = "it needs a password" if "password" in str(error) else f"it is damaged: {_short(error)}"
    return InvalidInputError(
        f"the ZIP cannot be read: {words}",
        title="The file cannot be read",
        advice="Download it again; one with a password must be unpacked first.",
    )


def _with_floats(value: Any) -> Any:
    """A value with its decimals as floats, put in their places. One that is too large for any is
    told by name: asked for floats itself, the reader would give up the rest of the file over it."""
    whole = [value]
    within: list[Any] = [whole]
    while within:  # not by recursion: it may be nested deeper than that goes
        each = within.pop()
        for at, item in each.items() if isinstance(each, dict) else enumerate(each):
            if isinstance(item, Decimal):
                each[at] = writable(float(item))
            elif isinstance(item, dict | list):
                within.append(item)
    return whole[0]
