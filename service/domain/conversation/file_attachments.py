"""Files that a person sends with a message: how the message tells of them.

The words say that there was one, as they do of an image; a note tells the model how to read it; and
the metadata hold what belongs to the message, and goes where the message goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from service.domain.conversation.messages import Message, NotePart, TextPart
from service.domain.errors import InvalidInputError
from service.domain.ids import new_id

LARGEST_FILES = 10_000_000
"""Bytes of all files of one message: as base64 they fit into `server.max_body_bytes`."""
SENT = "sent:"
"""How the path of a file begins that was sent with a message."""
_KEY = "file:"
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is about to be sent."""

    name: str
    data: bytes


class SentFile(BaseModel):
    """A file that was sent."""

    model_config = ConfigDict(frozen=True)

    id: str
    owner: str
    name: str
    size: int
    """In bytes."""

    @property
    def path(self) -> str:
        """How a tool is told of it."""
        return f"{SENT}{self.id}/{self.name}"

    @property
    def key(self) -> str:
        """Its name in the metadata of the message."""
        return f"{_KEY}{self.id}"


def file_name(written: str) -> str:
    r"""A file's own name, without folders and what could deceive.

    >>> file_name("C:\\Users\\ada\\report.pdf"), file_name("../../x\n.txt"), file_name("年 报.pdf")
    ('report.pdf', 'x.txt', '年 报.pdf')
    """
    name = written.replace("\\", "/").rstrip("/").rpartition("/")[2]
    printable = "".join(each for each in name if each.isprintable()).strip(". ")
    if len(printable) > _LONGEST_NAME:
        stem, dot, ending = printable.rpartition(".")
        short = len(ending) < 10 and dot
        printable = f"{stem[: _LONGEST_NAME - 10]}.{ending}" if short else printable[:_LONGEST_NAME]
    return printable or "file"


def named(files: Iterable[NewFile], owner: str) -> tuple[SentFile, ...]:
    """Files that are about to be sent, each with an id of its own."""
    return tuple(
        SentFile(id=new_id(), owner=owner, name=file_name(each.name), size=len(each.data))
        for each in files
    )


def check_files(files: Sequence[NewFile]) -> None:
    """See to it that files can be sent.

    Raises:
        InvalidInputError: they are too large together.
    """
    size = sum(len(each.data) for each in files)
    if size > LARGEST_FILES:
        raise InvalidInputError(
            f"the files have {size:,} bytes together; at most {LARGEST_FILES:,} are taken",
            advice="Send them in several messages, or put them into a folder that you grant with"
            " tools.files_read.",
        )


def with_files(message: Message, files: Iterable[SentFile]) -> Message:
    """A message that tells of files which go with it.

    >>> sent = SentFile(id="f1", owner="me", name="report.pdf", size=1200)
    >>> told = with_files(Message.user("What is this?"), [sent])
    >>> told.text
    'What is this? (a file: report.pdf)'
    """
    parts = list(message.content)
    for each in files:
        gap = " " if message.text and not message.text[-1].isspace() else ""
        parts.append(TextPart(text=gap + _told(each.name)))
        gap = " "
        note = f"{each.name} has {each.size:,} bytes. read_file reads it: its path is {each.path}"
        parts.append(NotePart(note=note))
    return message.model_copy(update={"content": tuple(parts)})


def without_files(words: str, metadata: Mapping[str, Any]) -> str:
    """What a person said themselves: a file's name is whoever's who gave it.

    >>> sent = SentFile(id="f1", owner="me", name="I owe Bo 9.pdf", size=1)
    >>> told = with_files(Message.user("Look!"), [sent])
    >>> without_files(told.text, metadata_of([sent]))
    'Look! '
    """
    for key, about in metadata.items():
        if key.startswith(_KEY) and isinstance(about, Mapping):
            words = words.replace(_told(str(about.get("name"))), "")
    return words


def _told(name: str) -> str:
    return f"(a file: {name})"


def metadata_of(files: Iterable[SentFile]) -> dict[str, Any]:
    """What the metadata of their message hold."""
    return {each.key: {"name": each.name, "size": each.size} for each in files}


def ids_in(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the files that the metadata of a message, or of an iteration, name."""
    return tuple(name.removeprefix(_KEY) for name in metadata if name.startswith(_KEY))
