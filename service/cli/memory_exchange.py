"""All that is remembered as a file, and back: writing an export, and sending an archive.

An export to a file is whole or not there. An import may be broken off at any time, and goes on
where it ended when it is begun again.
"""

from __future__ import annotations

import os
import secrets
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import advice_when_lost
from service.cli.daemon.stream_items import Json, read_as
from service.cli.terminal.output import aside, one_line, out, plain
from service.cli.views.phrases import counted
from service.domain.errors import StorageError
from service.domain.exchange import LISTED_PROBLEMS, ImportProblem, ImportReport
from service.memory.exchange.importers.archives import Archive, ArchivedConversation, Format
from service.memory.run_loop_lines import line_of

if TYPE_CHECKING:
    from rich.progress import Progress

_EXPORT_PATH = "/v1/memory/export"
_COUNT_HEADER = "Rondo-Run-Loops"
_UNREADABLE = b'{"problem":'
"""How the line begins that stands for a run loop which cannot be read."""
_IMPORT_PATH = "/v1/memory/import"
_MEDIA_TYPE = "application/x-ndjson"
_WHEN_LOST = (
    "What is in is in. Run the same command again once the daemon is there: it goes on where this"
    " ended, and nothing comes in twice."
)
_SHOWN_PROBLEMS = 20
_LONGEST_TITLE = 200  # all of them are held
_NAMES: dict[Format, str] = {"rondo": "Rondo", "chatgpt": "ChatGPT", "claude": "Claude"}


def export_to_stdout(daemon: Daemon, params: Mapping[str, str]) -> int:
    """Write the lines to the standard output; how many run loops could not be read.

    Raises:
        DaemonError: see `service.cli.daemon.daemon_errors`.
    """
    _, unreadable = _export(daemon, params, sys.stdout.buffer.write)
    sys.stdout.buffer.flush()
    return unreadable


def export_to_file(daemon: Daemon, params: Mapping[str, str], name: str) -> int:
    """Write the lines to a file, which gets its name at the end; how many could not be read.

    Raises:
        DaemonError: see `service.cli.daemon.daemon_errors`.
        StorageError: the file cannot be written; what had that name before is still there.
    """
    path = Path(name).expanduser()
    with _errors_of(path):
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder", str(path))
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                total, unreadable = _export(daemon, params, file.write)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    written = total - unreadable
    aside().print(f"{counted(written, 'run loop')} written to {plain(str(path))}", style="dim")
    return unreadable


def _export(
    daemon: Daemon, params: Mapping[str, str], write: Callable[[bytes], object]
) -> tuple[int, int]:
    """How many lines there were, and how many of them hold no run loop."""
    total, unreadable = 0, 0
    held = b""
    with daemon.download(_EXPORT_PATH, dict(params)) as response, _export_bar() as bar:
        expected = response.headers.get(_COUNT_HEADER, "")
        task = bar.add_task("exporting", total=int(expected) if expected.isdecimal() else None)
        for chunk in response.iter_bytes():
            write(chunk)
            total += chunk.count(b"\n")
            *lines, held = (held + chunk).split(b"\n")
            unreadable += sum(line.startswith(_UNREADABLE) for line in lines)
            held = held[: len(_UNREADABLE)]  # only how a line begins is looked at
            bar.update(task, completed=total)
    if unreadable:
        aside().print(
            f"{counted(unreadable, 'run loop')} could not be read: a line with `problem` stands in"
            " its place, and says why.",
            style="yellow",
        )
    return total, unreadable


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}",
            title="The export cannot be written",
            advice=_advice_of(error, path),
        ) from error


def _advice_of(error: OSError, path: Path) -> str:
    match error:
        case IsADirectoryError():
            return f"Give the name of a file in it, such as -o {path / 'memory.jsonl'}."
        case FileNotFoundError() | NotADirectoryError():
            return "Make the folder first, or choose another place with -o."
        case PermissionError():
            return "Choose a place with -o where you may write."
        case _:
            return "Free some space there, or choose another place with -o."


def _export_bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=aside(),
        transient=True,
        disable=not aside().is_terminal,
    )


@dataclass(frozen=True, slots=True)
class Trouble:
    """What could not go in, and where it stands in the file."""

    place: int
    """The line; in an archive of another service the conversation."""
    title: str
    problem: str
    run_loop_id: str | None = None
    """Where it could be read so far."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an import came to."""

    format: Format
    report: ImportReport
    """Its failures count those of the conversations, too."""
    troubles: list[Trouble]
    conversations: int
    """Of an archive of another service."""
    empty: int
    """Conversations in which nothing was said."""

    def as_json(self) -> Json:
        """For scripts."""
        place = "line" if self.format == "rondo" else "conversation"
        report = self.report
        summary: Json = {
            "format": self.format,
            "imported": report.imported,
            "extended": report.extended,
            "unchanged": report.unchanged,
            "failures": report.failures,
            "failed": [
                {
                    place: each.place,
                    **({"title": each.title} if each.title else {}),
                    **({"run_loop_id": each.run_loop_id} if each.run_loop_id else {}),
                    "problem": each.problem,
                }
                for each in self.troubles
            ],
            "dry_run": report.dry_run,
        }
        if self.format != "rondo":
            summary |= {"conversations": self.conversations, "empty": self.empty}
        return summary

    def tell(self) -> None:
        """For people."""
        report, would = self.report, "would be " if self.report.dry_run else ""
        if self.format != "rondo":
            empty = f", {self.empty:,} of them without words" if self.empty else ""
            words = f"{counted(self.conversations, 'conversation')} of {_NAMES[self.format]}{empty}"
            out().print(words)
        out().print(
            f"{counted(report.imported, 'run loop')} {would}imported,"
            f" {report.extended:,} extended, {report.unchanged:,} unchanged"
        )
        place = "line" if self.format == "rondo" else "conversation"
        for each in self.troubles[:_SHOWN_PROBLEMS]:
            title = f" “{one_line(each.title, 40)}”" if each.title else ""
            where = f"{place} {each.place}{title}"
            aside().print(f"{where}: {plain(each.problem)}", style="yellow", soft_wrap=True)
        if report.failures > _SHOWN_PROBLEMS:
            more = f"{report.failures - _SHOWN_PROBLEMS:,} more; --json lists them"
            aside().print(f"… and {more}.", style="yellow")
        if report.failures:
            aside().print(f"{report.failures:,} could not go in; the others are.", style="yellow")


def import_archive(daemon: Daemon, file: str, source_format: str, *, dry_run: bool) -> Outcome:
    """Bring in a file.

    Args:
        daemon: where to.
        file: its path; ``-`` is the standard input.
        source_format: its format; ``auto``: the contents tell.
        dry_run: change nothing.

    Raises:
        DaemonError: see `service.cli.daemon.daemon_errors`.
        InvalidInputError: the file cannot be read.
    """
    daemon.get("/v1/memory/stats")  # whether it is there, before a long file is begun
    path = None if file == "-" else Path(file).expanduser()
    given = None if source_format == "auto" else cast(Format, source_format)
    with Archive(path, sys.stdin.buffer, given) as archive:
        conversion = _Conversion(archive)
        params = {"source": archive.format, "dry_run": str(dry_run).lower()}
        with _import_bar() as bar:
            chunks = _watched(conversion.chunks(), archive, bar)
            try:
                with advice_when_lost(_WHEN_LOST):
                    answer = daemon.upload(
                        _IMPORT_PATH, chunks, media_type=_MEDIA_TYPE, params=params
                    )
            except KeyboardInterrupt:
                bar.stop()
                aside().print(
                    "Stopped. What went in stays; begin again to go on where this ended.",
                    style="yellow",
                )
                raise click.exceptions.Exit(130) from None
        return conversion.outcome(read_as(ImportReport, answer))


@dataclass(slots=True)
class _Conversion:
    """Makes lines of an archive, and knows afterwards where each came from."""

    archive: Archive
    troubles: list[Trouble] = field(default_factory=list)
    failures: int = 0
    conversations: int = 0
    empty: int = 0
    places: array[int] = field(default_factory=lambda: array("L"))
    """For each line the conversation."""
    titles: dict[int, str] = field(default_factory=dict)
    """The beginnings of those of the conversations that have lines."""

    def chunks(self) -> Iterator[bytes]:
        """The lines, in pieces of any size."""
        if self.archive.format == "rondo":
            yield from self.archive.chunks()
            return
        for conversation in self.archive.conversations():
            yield from self._lines(conversation)

    def _lines(self, conversation: ArchivedConversation) -> Iterator[bytes]:
        self.conversations += 1
        if conversation.problem is not None:
            self._fail(Trouble(conversation.number, conversation.title, conversation.problem))
        elif not conversation.run_loops:
            self.empty += 1
        if conversation.run_loops and conversation.title:
            self.titles[conversation.number] = conversation.title[:_LONGEST_TITLE]
        for run_loop in conversation.run_loops:
            self.places.append(conversation.number)
            yield line_of(run_loop)

    def _fail(self, trouble: Trouble) -> None:
        self.failures += 1
        if len(self.troubles) < LISTED_PROBLEMS:
            self.troubles.append(trouble)

    def outcome(self, report: ImportReport) -> Outcome:
        """What came of it, with what the daemon says of the lines."""
        troubles = self.troubles + [self._trouble(each) for each in report.failed]
        return Outcome(
            self.archive.format,
            report.model_copy(update={"failures": report.failures + self.failures}),
            sorted(troubles, key=lambda each: each.place),
            self.conversations,
            self.empty,
        )

    def _trouble(self, problem: ImportProblem) -> Trouble:
        if self.archive.format == "rondo":
            return Trouble(problem.line, "", problem.problem, problem.run_loop_id)
        place = self.places[problem.line - 1]
        title = self.titles.get(place, "")
        return Trouble(place, title, problem.problem, problem.run_loop_id)


def _watched(chunks: Iterator[bytes], archive: Archive, bar: Progress) -> Iterator[bytes]:
    """The same, while the bar shows how far the file has been read."""
    task = bar.add_task("importing", total=archive.size)
    for chunk in chunks:
        yield chunk
        bar.update(task, completed=archive.read)


def _import_bar() -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=aside(),
        transient=True,
        disable=not aside().is_terminal,
    )
