"""Changes of files that can be taken back, as they go over HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from service.domain.run_loops import Timestamp


class ChangedFile(BaseModel):
    """A file that the assistant has changed."""

    id: str
    """Of the change."""
    path: str
    at: Timestamp
    run_loop_id: str
    """Where it was asked for; empty where a tool was run by hand."""
    is_new: bool
    """Whether there was no such file before: taking it back deletes it."""
    state: Literal["written", "undone", "changed", "out_of_reach"]
    """How the file is now: as the change left it, so that it can be taken back; as it was before;
    otherwise, or gone; or where it is, nothing may be written any more."""


class ChangedFiles(BaseModel):
    """The changes that are kept, newest first."""

    changes: list[ChangedFile]


class ChangedFileDetails(ChangedFile):
    """One of them, with what taking it back would do."""

    difference: str
    """Unified; bounded, and what is cut is said in it."""


class UndoneChange(BaseModel):
    """A change that was taken back."""

    id: str
    path: str
    deleted: bool
    """Whether the file is gone, as it was new."""
