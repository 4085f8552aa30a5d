"""What this process may use of the machine, and which of the known models that carries.

Memory and processors, also within a container: totals and limits only, never what happens to be
free, so that the same machine is read alike at each start. On Linux they come from ``/proc`` and
the control groups, versions 1 and 2 (https://docs.kernel.org/admin-guide/cgroup-v2.html,
.../cgroup-v1/memory.html); elsewhere from what Python knows.

Where no setting names a model, the largest runs that the machine carries. What is told here to be
needed was measured, on Linux (x86-64), with a context of 8192 tokens (the server has memory for
two, and takes it when it starts):

==================  ======  ==========================
model               loaded  read, written in a second,
                            on one core
==================  ======  ==========================
qwen2.5-coder-0.5b  0.9 GB  100, 23
qwen2.5-coder-1.5b  2.4 GB  42, 10
==================  ======  ==========================

(resident memory of the model's process, its mapped weights included; tokens; the smaller one had
0.03 GB more once that memory was full). The daemon itself had 0.55 GB with the bundled embedder
loaded and a small memory; it is given `DAEMON_BYTES`, for one that has grown. Where the memory is
all that the machine has, the system and other programs are left `SYSTEM_BYTES`. Two processors are
enough for the larger one, as reading takes both: with two, and other work on them, the first word
of its answers came after 1.8 s, and all of them after 2.7 s (medians of the 76 messages of ``rondo
bench answers``).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from service.models.catalog import SMALL_MODEL

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is for this process and all beside it."""

    memory_bytes: int
    processors: float
    """A container may be given a part of one."""
    is_bounded: bool = False
    """Whether the memory is the share of a container, and not all that the machine has."""

    def in_words(self) -> str:
        """The machine in a few words.

        >>> Machine(8_200_000_000, 4).in_words()
        '8.2 GB of memory and 4 processors'
        """
        plural = "" if self.processors == 1 else "s"
        return f"{gigabytes(self.memory_bytes)} of memory and {self.processors:g} processor{plural}"


def gigabytes(count: int) -> str:
    """A number of bytes for people.

    >>> gigabytes(2_640_000_000), gigabytes(25_000_000_000)
    ('2.6 GB', '25 GB')
    """
    return f"{count / 1e9:.1f} GB" if count < 9.95e9 else f"{count / 1e9:.0f} GB"


def read_machine(root: Path = _ROOT) -> Machine:
    """Read what this process may use.

    Args:
        root: the folder that holds ``proc`` and, below it, where control groups are mounted.
    """
    total = _total_memory(root)
    groups = list(_groups(root))
    limits = [limit for group in groups for limit in _memory_limits(group) if limit < total]
    shares = [share for group in groups if (share := _processor_share(group)) is not None]
    return Machine(
        memory_bytes=min(limits, default=total),
        processors=round(min([float(_allowed_processors(root)), *shares]), 2),
        is_bounded=bool(limits),
    )


def _total_memory(root: Path) -> int:
    match = re.search(r"^MemTotal:\s*(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if match:
        return int(match[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _allowed_processors(root: Path) -> int:
    """Those that affinity and cpusets leave."""
    status = _text(root / "proc/self/status")
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    if not match:
        return os.cpu_count() or 1
    count = 0
    for span in match[1].split(","):
        first, _, last = span.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the control groups that this process is in, and of those above them."""
    own: dict[str, str] = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)  # that of version 2 has no name
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, behind = line.partition(" - ")
        kind, _, options = behind.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        mounted_from, mounted_at = before.split(" ")[3:5]
        names = {""} if kind == "cgroup2" else set(options.split(","))
        for path in {own[name] for name in names if name in own}:
            yield from _upwards(root / mounted_at.lstrip("/"), path, mounted_from)


def _upwards(mount: Path, path: str, mounted_from: str) -> Iterator[Path]:
    # In a container, the group's path may be that of the host, of which only the end is mounted.
    below = PurePosixPath("/")
    with contextlib.suppress(ValueError):
        below = PurePosixPath(path).relative_to(mounted_from)
    group = mount.joinpath(*(part for part in below.parts if part not in ("/", "..")))
    while group != mount:
        yield group
        group = group.parent
    yield mount


def _memory_limits(group: Path) -> Iterator[int]:
    # ``memory.high`` does not kill, but slows down whoever goes above it until they are no use.
    for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
        written = _text(group / name).strip()
        if written.isdigit() and int(written):
            yield int(written)


def _processor_share(group: Path) -> float | None:
    quota, _, period = _text(group / "cpu.max").strip().partition(" ")
    if not quota:
        quota = _text(group / "cpu.cfs_quota_us").strip()
        period = _text(group / "cpu.cfs_period_us").strip()
    if not (quota.isdigit() and period.isdigit() and int(quota) and int(period)):
        return None  # "max", -1, or no such file
    return int(quota) / int(period)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", errors="replace")
    except OSError:  # another system, or a controller that is not in use
        return ""


DAEMON_BYTES = 1_200_000_000
SYSTEM_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Needs:
    """What a model's process takes, at most."""

    memory_bytes: int
    processors: float
    """With fewer, a person waits too long for its answers while other work goes on."""


NEEDS = {
    "qwen2.5-coder-1.5b": Needs(2_700_000_000, 2),
    "qwen2.5-coder-0.5b": Needs(1_300_000_000, 1),
    "smollm2-135m": Needs(900_000_000, 1),
}
CANDIDATES = ("qwen2.5-coder-1.5b", SMALL_MODEL)
"""From which the machine chooses, the best one first. The last one is taken where none fits."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that runs where no setting names one, and for what machine."""

    name: str
    machine: Machine

    def in_words(self) -> str:
        """Why it is this one, as a sentence.

        >>> Choice("a", Machine(8_000_000_000, 4)).in_words()
        'Chosen for 8.0 GB of memory and 4 processors.'
        """
        return f"Chosen for {self.machine.in_words()}."


def choose(machine: Machine) -> Choice:
    """The model for a machine, whatever is on its disk."""
    fitting = (name for name in CANDIDATES if shortage(name, machine) is None)
    return Choice(next(fitting, SMALL_MODEL), machine)


def shortage(name: str, machine: Machine) -> str | None:
    """Why a machine does not carry a known model, as a clause; None where it does.

    >>> shortage("qwen2.5-coder-1.5b", Machine(4_000_000_000, 2))
    'it takes up to 4.9 GB of memory with all else, and there are 4.0 GB'
    """
    needs = NEEDS[name]
    required = memory_needed(name) + (0 if machine.is_bounded else SYSTEM_BYTES)
    if machine.memory_bytes < required:
        return (
            f"it takes up to {gigabytes(required)} of memory with all else, and there are"
            f" {gigabytes(machine.memory_bytes)}"
        )
    if machine.processors < needs.processors:
        return (
            f"it is slow with fewer than {needs.processors:g} processors, and there are"
            f" {machine.processors:g}"
        )
    return None


def memory_needed(name: str) -> int:
    """Bytes that Rondo takes with a known model, at most."""
    return NEEDS[name].memory_bytes + DAEMON_BYTES


@cache
def chosen() -> Choice:
    """The model for this machine. Chosen once in a process."""
    return choose(read_machine())
