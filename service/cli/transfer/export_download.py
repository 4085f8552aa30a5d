"""Writing an export: to a file that is whole or not there, or to the standard output."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.daemon.daemon_client import Daemon
from service.cli.terminal.output import aside, plain
from service.cli.views.phrases import counted
from service.domain.errors import StorageError

if TYPE_CHECKING:
    from rich.progress import Progress

_PATH = "/v1/memory/export"
_COUNT_HEADER = "Rondo-Run-Loops"
_UNREADABLE = b'{"problem":'
"""How the line begins that stands for a run loop which cannot be read."""


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
    with daemon.download(_PATH, dict(params)) as response, _bar() as bar:
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
            advice=_advice(error, path),
        ) from error


def _advice(error: OSError, path: Path) -> str:
    match error:
        case IsADirectoryError():
            return f"Give the name of a file in it, such as -o {path / 'memory.jsonl'}."
        case FileNotFoundError() | NotADirectoryError():
            return "Make the folder first, or choose another place with -o."
        case PermissionError():
            return "Choose a place with -o where you may write."
        case _:
            return "Free some space there, or choose another place with -o."


def _bar() -> Progress:
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
