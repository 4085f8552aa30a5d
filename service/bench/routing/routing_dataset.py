"""A set of conversations: a folder of ``.jsonl`` files, one stream each, in order of time.

A line is something said: ``{"id", "text", "at", "thread", "role"}``, where `thread` names the
topic that it truly belongs to, and `role` is ``user`` or ``assistant``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from service.bench import parameters
from service.bench.parameters import BenchmarkError

SETS = "routing"
"""The folder of sets, inside of a folder of several kinds of data."""

_SHAPE = "A set is a folder of .jsonl files; docs/benchmarks.md says what a line must hold."


def _with_zone(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


class Said(BaseModel):
    """One line. A moment without a time zone is in UTC."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    id: str
    text: str
    at: Annotated[datetime, AfterValidator(_with_zone)]
    thread: str = Field(min_length=1)
    role: Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Stream:
    """One file of a set."""

    name: str
    said: Sequence[Said]


@dataclass(frozen=True, slots=True)
class RoutingSet:
    """One set, read and checked."""

    name: str
    streams: Sequence[Stream]
    sha256: str
    """Of all files, one after the other; as the model's `trained_on` has it."""
    files: dict[str, str]
    """SHA-256 of each file, by name."""
    notices: Sequence[str]
    """What a person should know of it, in words."""

    @property
    def messages(self) -> int:
        """How many messages there are to route."""
        return sum(each.role == "user" for stream in self.streams for each in stream.said)


def files(folder: Path) -> list[Path]:
    """The streams of a set, by name."""
    return sorted(folder.glob("*.jsonl"))


def find_sets(folder: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """The folders of sets.

    Args:
        folder: of one set, of folders of sets, or of a folder ``routing`` of such.
        patterns: only the sets of these names; patterns such as ``irc-*`` do.

    Raises:
        BenchmarkError: there are none, or none of a wanted name.
    """
    return parameters.find_sets(
        folder, patterns, kind=SETS, is_set=lambda each: bool(files(each)), shape=_SHAPE
    )


def read_set(folder: Path) -> RoutingSet:
    """Read a set and check that it can be judged.

    Raises:
        BenchmarkError: a file cannot be read, a line is not of the form, or nobody says anything
            that could be routed.
    """
    name = folder.resolve().name
    whole = hashlib.sha256()
    digests: dict[str, str] = {}
    streams: list[Stream] = []
    notices: list[str] = []
    for path in files(folder):
        raw = _bytes(path)
        whole.update(raw)
        digests[path.name] = hashlib.sha256(raw).hexdigest()
        stream = Stream(path.stem, tuple(_parsed(path, raw)))
        streams.append(stream)
        if backwards := sum(later.at < earlier.at for earlier, later in pairwise(stream.said)):
            notices.append(f"{path.name} goes back in time {backwards} times")
        if not stream.said:
            notices.append(f"{path.name} is empty")
    routing_set = RoutingSet(name, streams, whole.hexdigest(), digests, tuple(notices))
    if not routing_set.messages:
        raise BenchmarkError(
            f"{folder} holds no message of a person's: there is nothing to route",
            advice='Only lines with "role": "user" are routed.',
        )
    return routing_set


def said_in(path: Path) -> Iterator[Said]:
    """The lines of one stream.

    Raises:
        BenchmarkError: it cannot be read, or a line is not of the form.
    """
    yield from _parsed(path, _bytes(path))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchmarkError(
            f"{path} cannot be read: {error}", advice="It must be a text file in UTF-8."
        ) from error


def _parsed(path: Path, raw: bytes) -> Iterator[Said]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BenchmarkError(
            f"{path} cannot be read: {error}", advice="It must be a text file in UTF-8."
        ) from error
    # Not `splitlines`, which also cuts at marks that JSON allows inside of strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield Said.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BenchmarkError(
                f"{path}, line {number}: {where + ': ' if where else ''}{first['msg']}",
                advice="Correct the line; docs/benchmarks.md says what it must hold.",
            ) from error
