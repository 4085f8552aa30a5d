"""What a confined program may see, change and use up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use up. The kernel keeps them, in every sandbox and without one."""

    memory_bytes: int = 2 << 30
    """Of data, for each process."""
    memory_bytes_in_all: int = 4 << 30
    """Of all processes of a run together; kept by a look now and then."""
    file_bytes: int = 1 << 30
    """Of one file that it writes."""
    processes: int = 256
    """At once. The kernel keeps it for users, and a look now and then for root."""

    def by_name(self) -> Mapping[str, int]:
        """By the names of the module `resource`; those that hold in and outside of a sandbox."""
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_CORE": 0,
        }


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a program may reach beside the system's own files, in which it can only read."""

    readable: tuple[Path, ...] = ()
    """Folders and files of the person's that it may read."""
    writable: tuple[Path, ...] = ()
    """Folders that it may change, too."""
    hidden: tuple[Path, ...] = ()
    """What it may not see, also where it lies within those: the data folder, above all."""
    network: bool = False
    """Whether it may use the network; else there is none, this machine's own included."""
    scratch_bytes: int = 256 << 20
    """How much it may write into its working folder, and as much again into ``/tmp``."""
    limits: Limits = field(default_factory=Limits)

    @property
    def read_only(self) -> tuple[Path, ...]:
        """What is readable without being writable."""
        return self._out_of_its_reach(self.readable)

    @property
    def changeable(self) -> tuple[Path, ...]:
        """What is writable, each folder once."""
        return self._out_of_its_reach(self.writable)

    def _out_of_its_reach(self, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        """Those to which no way leads through a writable folder: the program itself could put a
        link there, and its next run would be granted what that leads to."""
        folders = [each.resolve() for each in self.writable]
        return tuple(
            path
            for path in paths
            if not any(
                parent.resolve().is_relative_to(each) for parent in path.parents for each in folders
            )
        )
