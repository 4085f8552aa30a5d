"""What comes of an import: how many run loops were new, had grown, were known, could not go in."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

LISTED_PROBLEMS = 1_000
"""How many problems a report lists one by one; all are counted."""


class ImportProblem(BaseModel):
    """Why one line did not go in."""

    model_config = ConfigDict(frozen=True)

    line: int
    """Counted from 1, blank lines too."""
    problem: str
    """In words."""
    run_loop_id: str | None = None
    """Where the line could be read so far."""


class ImportReport(BaseModel):
    """What an import came to."""

    model_config = ConfigDict(frozen=True)

    imported: int = 0
    """Run loops that are new here."""
    extended: int = 0
    """Run loops that were here, and have grown in the file."""
    unchanged: int = 0
    """Run loops of which nothing is new."""
    failures: int = 0
    """Lines that could not go in."""
    failed: tuple[ImportProblem, ...] = ()
    """The first of them, and why."""
    dry_run: bool = False
    """Whether all this would have happened, and nothing has."""
