"""Forgetting what is kept in files of its own: what persons have sent with messages, and what files
of theirs held before tool calls changed them.

A change goes with the arguments of the call that made it: the journal tells whether they are still
there, wherever it was asked to forget, and however often this is gone over again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import anyio.to_thread

from service.domain.forgetting_terms import FORGOTTEN_ARGUMENTS, Removed
from service.domain.history.events import ToolStarted
from service.memory.file_changes import FileChanges
from service.memory.journal.protocol import Journal
from service.memory.journal.rewriting import Record
from service.memory.sent_files import SentFiles


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What is kept in files of its own."""

    changes: FileChanges
    sent: SentFiles

    async def forget(self, journal: Journal, record: Record) -> Removed:
        """Remove what belongs to words that have left the journal; gives what went before, and now.

        Raises:
            StorageError: the journal cannot be read.
            OSError: a file cannot be deleted.
        """
        receipt = record.receipt
        run_loop_ids = (*receipt.run_loops, *record.changed)
        every = "everything" in receipt.by
        changes = await forget_changed_files(
            journal, self.changes, record.owner, None if every else run_loop_ids
        )
        sent = await self.sent.sweep(journal)
        removed = receipt.removed
        return removed.model_copy(
            update={
                "file_changes": removed.file_changes + changes,
                "sent_files": removed.sent_files + sent,
            }
        )


async def forget_changed_files(
    journal: Journal, changes: FileChanges, owner: str, run_loop_ids: Collection[str] | None
) -> int:
    """Remove the changes whose calls have lost their words; gives how many went.

    Args:
        journal: as it is after the words have left it.
        changes: those that are kept.
        owner: whose.
        run_loop_ids: the loops that are gone or have lost words; None: all is to go.

    Raises:
        StorageError: the journal cannot be read.
        OSError: a change cannot be deleted.
    """
    if run_loop_ids is None:
        return await anyio.to_thread.run_sync(lambda: changes.forget(owner))
    kept = await anyio.to_thread.run_sync(changes.run_loops, owner)
    gone = 0
    for run_loop_id in sorted(kept.intersection(run_loop_ids)):
        started = await journal.read(run_loop_id=run_loop_id, kind="tool.started")
        keys = {
            event.body.idempotency_key
            for event in started
            if isinstance(event.body, ToolStarted) and event.body.arguments != FORGOTTEN_ARGUMENTS
        }
        gone += await anyio.to_thread.run_sync(_forget, changes, owner, run_loop_id, keys)
    return gone


def _forget(changes: FileChanges, owner: str, run_loop_id: str, keys: Collection[str]) -> int:
    return changes.forget(owner, run_loop_id=run_loop_id, but=keys)
