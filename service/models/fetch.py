"""Fetching the bytes of a model from one source into a file, so that it can be taken up again.

Whatever was fetched before the process was killed is kept in the work folder, and the next attempt
goes on behind it. The functions block; a `Fetch` carries what they share. The errors tell callers
what makes no sense to try again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from service.domain.errors import ModelStoreError
from service.models.catalog import FileSource, KnownModel


class PullFailedError(ModelStoreError):
    """No source gave the file. The detail says of each source what failed."""

    def __init__(self, detail: str, *, advice: str, wrong_hash: bool = False) -> None:
        super().__init__(detail, advice=advice)
        self.wrong_hash = wrong_hash
        """Whether every source gave another file than the known one: they will do so again."""


class PullCancelledError(ModelStoreError):
    """The pull was asked to stop. What was fetched is kept."""

    title = "Fetching a model was stopped"


class SourceFailed(Exception):
    """One source did not give the file; the text says why, in words."""

    def __init__(self, reason: str, *, wrong_hash: bool = False, was_slow: bool = False) -> None:
        super().__init__(reason)
        self.wrong_hash = wrong_hash
        self.was_slow = was_slow
        """Whether it may give the file to somebody who waits longer."""


BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull has come."""

    name: str
    stage: Literal["downloading", "verifying"]
    done_bytes: int
    total_bytes: int
    source: str
    """Where the bytes come from, in few words."""

    @property
    def percent(self) -> int:
        """Whole percents done, rounded down."""
        return min(100, self.done_bytes * 100 // self.total_bytes) if self.total_bytes else 0

    def in_words(self) -> str:
        """The progress as a line.

        >>> PullProgress("tiny", "downloading", 43_000_000, 100_000_000, "hub.example").in_words()
        'downloading tiny, 43 % of 100 MB, from hub.example'
        """
        words = f"{self.stage} {self.name}, {self.percent} % of {megabytes(self.total_bytes)}"
        return f"{words}, from {self.source}" if self.stage == "downloading" else words


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server is waited for. Times are in seconds."""

    reach: float
    """For the name to be looked up, and again for a connection to be made."""
    answer: float
    """For an answer to begin, through all redirects."""
    silence: float
    """Between two pieces of an answer."""
    attempts: int
    """So many in a row that bring nothing are enough."""
    pace_seconds: float
    least_bytes: int
    """A server that gives fewer in ``pace_seconds`` is given up; 0: none is."""


HURRIED = Patience(reach=2, answer=5, silence=10, attempts=1, pace_seconds=20, least_bytes=200_000)
"""Where another source stands behind: a server that cannot be reached costs a second or two."""
PATIENT = Patience(reach=10, answer=30, silence=30, attempts=3, pace_seconds=20, least_bytes=0)
"""For the last one, which is as good as it gets."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """One attempt to get a model: what every kind of source needs to know."""

    model: KnownModel
    folder: Path
    """The source's own work folder. Files in it survive until the model is complete."""
    cancelled: Callable[[], bool]
    report: Callable[[int], None]
    """Told how many bytes are there."""
    patience: Patience = PATIENT

    def check(self) -> None:
        """Stop here when asked to.

        Raises:
            PullCancelledError: the pull was cancelled.
        """
        if self.cancelled():
            raise PullCancelledError(
                f"{self.model.name} is not complete; what was fetched is kept",
                advice=f"Go on with `rondo models pull {self.model.name}`.",
            )

    def copy(self, source: BinaryIO, target: BinaryIO, *, done: int) -> int:
        """Append a stream, and give the new length.

        Args:
            source: is read to its end.
            target: stands at its end.
            done: the length so far.

        Raises:
            SourceFailed: the stream is longer than the model is.
            PullCancelledError: the pull was cancelled.
        """
        while block := source.read(BLOCK):
            self.check()
            done += len(block)
            if done > self.model.size:
                raise SourceFailed("it holds more bytes than the model has", wrong_hash=True)
            target.write(block)
            self.report(done)
        return done


def megabytes(count: int) -> str:
    """A number of bytes for people.

    >>> megabytes(491_400_064)
    '491 MB'
    """
    return f"{max(1, round(count / 1e6))} MB"


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell a full or read-only disk apart from a source that fails.

    Raises:
        ModelStoreError: the disk refused; trying another source would not help.
    """
    try:
        yield
    except OSError as error:
        raise ModelStoreError(
            f"{error.filename or folder} cannot be used: {error.strerror or error}",
            advice="Free some space or correct its permissions, or choose another folder with"
            " RONDO_MODELS_DIR. What was fetched is kept.",
        ) from error


def fetch_file(source: FileSource, fetch: Fetch) -> Path:
    """Copy a local file into the work folder.

    Raises:
        SourceFailed: there is no such file, or it cannot be read.
        PullCancelledError: the pull was cancelled.
    """
    target = fetch.folder / "copy.bin"
    try:
        reader = source.path.open("rb")
    except OSError as error:
        raise SourceFailed(f"it cannot be read: {error.strerror}") from error
    with reader, target.open("wb") as writer:
        fetch.copy(reader, writer, done=0)
    return target
