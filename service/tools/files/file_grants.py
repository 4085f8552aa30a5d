"""Which folders the settings grant to the file tools."""

from __future__ import annotations

from pathlib import Path

from service.config import Settings, backup_of, config_file
from service.tools.files.granted_folders import GrantedFolders

_PROCESSES = Path("/proc")
"""Tells of the daemon itself, with the keys in its environment, as if it were files."""


def granted_for_reading(settings: Settings) -> GrantedFolders:
    """Where files may be read: also where they may be changed. What holds Rondo's own keys may
    not, however wide a grant is: reading asks nobody."""
    folders = dict.fromkeys((*settings.tools.files_read, *settings.tools.files_write))
    own = [settings.data_dir, *_never_granted()]
    return GrantedFolders(
        tuple(each.absolute() for each in folders), tuple(each.absolute() for each in own)
    )


def granted_for_writing(settings: Settings) -> GrantedFolders:
    """Where files may be changed. What Rondo is set up by may not, wherever it lies: a model could
    grant itself more."""
    own = [settings.data_dir, settings.scripts_dir, *_never_granted()]
    return GrantedFolders(
        tuple(each.absolute() for each in settings.tools.files_write),
        tuple(each.absolute() for each in own),
        setting="tools.files_write",
    )


def _never_granted() -> list[Path]:
    file = config_file()
    files = [Path("rondo.toml"), *([file] if file is not None else [])]
    return [*files, *map(backup_of, files), _PROCESSES]
