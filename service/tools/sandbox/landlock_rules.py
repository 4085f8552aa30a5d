"""What a confined program may do to which files, in the terms of the kernel's Landlock.

https://docs.kernel.org/userspace-api/landlock.html; the bits are those of ``<linux/landlock.h>``.
Landlock grants folders with all that is below them, and cannot take a part of it away again. So
where something is to be hidden, what lies beside it is granted one by one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
READ = _EXECUTE | _READ_FILE | _READ_DIR
"""To read and to run."""
WRITE = ((1 << 15) - 1) & ~(_MAKE_CHAR | _MAKE_BLOCK)
"""All that `READ` is, and to make, change, move and remove anything but devices."""
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
"""To use a device."""
_NUMBER_OF_RIGHTS = ((5, 16), (3, 15), (2, 14), (1, 13))  # by the ABI that brought the last one
_BIND_AND_CONNECT_TCP = 0b11
_TO_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_CREATE_RULESET = 444


@dataclass(frozen=True, slots=True)
class Rule:
    """Rights on a path, and on all below it."""

    rights: int
    path: Path


@functools.cache
def landlock_abi() -> int:
    """Which version of Landlock the kernel has; 0 where it has none, or lets nobody use it."""
    if not sys.platform.startswith("linux"):
        return 0
    version: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(version, 0)


def handled(abi: int, *, network: bool) -> tuple[int, int, int]:
    """What Landlock of a version can rule over: files, network, and what leads to other processes.

    Args:
        abi: the version.
        network: whether the program may use the network.
    """
    files = next((1 << count for least, count in _NUMBER_OF_RIGHTS if abi >= least), 1) - 1
    tcp = _BIND_AND_CONNECT_TCP if abi >= 4 and not network else 0
    return files, tcp, _TO_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0


def around(path: Path, hidden: Iterable[Path], rights: int) -> Iterator[Rule]:
    """Rules that grant a path, but for what is hidden in it.

    Where something is, the folders on the way to it are not granted themselves, only what else lies
    in them now: they cannot be listed, and nothing can be made in them. Links among it are left
    out; what they lead to is granted where it lies.

    Args:
        path: a file or folder; a link is followed.
        hidden: real paths.
        rights: `READ` or `WRITE`.
    """
    real = path.resolve()
    inside = [each for each in hidden if each.is_relative_to(real)]
    if any(each == real for each in inside) or any(real.is_relative_to(each) for each in hidden):
        return
    if not inside:
        yield Rule(rights, real)
        return
    try:
        children = sorted(os.scandir(real), key=lambda each: each.name)
    except OSError:
        return
    for child in children:
        if not child.is_symlink():
            yield from around(Path(child.path), inside, rights)
