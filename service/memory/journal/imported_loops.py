"""Imported run loops in the journal: what is known of them, and many of them in one commit.

A loop that comes from a file is one event, ``run_loop.imported``, and another one when it has
grown there. Nobody is told while it happens: it is not news, and there may be a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.domain.history.events import RunLoopImported
from service.domain.history.state import RunLoopState

IMPORTED = '{"type":"run_loop.imported"'
"""How the body of such an event begins, as pydantic writes it."""


@dataclass(frozen=True, slots=True)
class ExistingLoop:
    """What the journal has under an id."""

    owner: str
    last_seq: int | None
    newest: str
    """The body of its newest event, as JSON."""


@dataclass(frozen=True, slots=True)
class Import:
    """A loop to be written."""

    run_loop_id: str
    body: RunLoopImported
    written: str
    """`body` as JSON."""
    grown_from: RunLoopState | None = None
    """The loop as it is here; None: it is new."""
    read_at: int = 0
    """The `Journal.lost_words_at` when it was looked up."""


@dataclass(frozen=True, slots=True)
class Written:
    """What one commit came to."""

    states: tuple[RunLoopState, ...]
    missed: tuple[Import, ...]
    """Those whose loops have changed since they were looked at: nothing was written of them."""
    change: int
    """The newest change when it was written."""


class Imports(Protocol):
    """Looks loops up, and writes them."""

    async def existing(self, run_loop_ids: Iterable[str]) -> dict[str, ExistingLoop]:
        """What is here under these ids, of any owner; those that are new are left out.

        Raises:
            StorageError: the file cannot be read.
        """
        ...

    async def append(self, imports: Sequence[Import], *, owner: str) -> Written:
        """Write loops, each id at most once, in one transaction that survives power loss.

        Nobody is told of them.

        Raises:
            StorageError: the disk refuses; nothing was written.
        """
        ...
