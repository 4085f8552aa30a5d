"""Which folders the settings grant to the file tools."""

from __future__ import annotations

from pathlib import Path

from service.config import Settings, config_file
from service.tools.files.granted_folders import GrantedFolders


def granted_for_reading(settings: Settings) -> GrantedFolders:
    """Where files may be read: also where they may be changed."""
    folders = dict.fromkeys((*settings.tools.files_read, *settings.tools.files_write))
    return GrantedFolders(
        tuple(each.absolute() for each in folders), (settings.data_dir.absolute(),)
    )


def granted_for_writing(settings: Settings) -> GrantedFolders:
    """Where files may be changed. What Rondo is set up by may not, wherever it lies: a model could
    grant itself more."""
    own = [settings.data_dir, settings.scripts_dir, Path("rondo.toml")]
    file = config_file()
    own += [file] if file is not None else []
    return GrantedFolders(
        tuple(each.absolute() for each in settings.tools.files_write),
        tuple(each.absolute() for each in own),
        setting="tools.files_write",
    )
