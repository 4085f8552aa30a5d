"""What of the system every confined program may read: programs, and a little of its settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
"""Folders of programs and what they load; not all of them are everywhere."""
SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone"),
        *("ssl", "pki", "ca-certificates", "ca-certificates.conf", "mime.types", "locale.alias"),
        *("fonts", "magic", "bash.bashrc", "profile", "perl", "python3", "passwd", "group"),
        *("nsswitch.conf", "os-release", "lsb-release", "debian_version", "gitconfig", "inputrc"),
        *("wgetrc", "ImageMagick-6", "ImageMagick-7", "texmf"),
    )
)
SETTINGS_FOR_NETWORK = tuple(
    f"/etc/{name}" for name in ("hosts", "host.conf", "resolv.conf", "services", "gai.conf")
)


def settings(*, network: bool) -> tuple[str, ...]:
    """The files and folders of settings; not all of them are everywhere."""
    return (*SETTINGS, *(SETTINGS_FOR_NETWORK if network else ()))


def own_python() -> tuple[Path, ...]:
    """Where the Python that runs us is, with its packages: it runs scripts in Python, too."""
    places = (sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent))
    return tuple(Path(each) for each in dict.fromkeys(places) if each not in ("/", "/usr"))


def reachable(path: str, granted: Iterable[Path]) -> str:
    """The folders of a ``PATH`` that a confined program can run something from.

    Shells take the first program of a name that they see, also where it cannot be run.

    Args:
        path: folders, with colons between them.
        granted: what the program may read beside the system.
    """
    roots = [each.resolve() for each in (*map(Path, PROGRAMS), *own_python(), *granted)]
    folders = [each for each in path.split(":") if each.startswith("/")]
    return ":".join(
        each for each in folders if any(Path(each).resolve().is_relative_to(root) for root in roots)
    )
