"""How values of the settings are written: folders, lists of names; and what a section is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _folder(written: object) -> object:
    # `Path("")` would be the current folder: not what an empty text is meant to say.
    if written == "":
        raise ValueError("it is empty")
    if not isinstance(written, str | Path):
        return written
    try:
        return Path(written).expanduser().absolute()
    except RuntimeError as error:  # ~somebody
        raise ValueError("this machine has no user of that name") from error


Folder = Annotated[Path, BeforeValidator(_folder)]
"""A folder as a person writes it: ``~`` is their home, and a relative one starts here."""


Folders = tuple[Folder, ...]


def _names(written: object) -> object:
    if not isinstance(written, str):
        return written
    return tuple(name.strip() for name in written.split(",") if name.strip())


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""A list of names; as a variable also one text, with commas between them."""


class Section(BaseModel):
    """A table of the settings: unknown names are refused, and nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
