"""Accepting a message together with the files that go with it: both, or neither."""

from __future__ import annotations

from collections.abc import Sequence

from service.agent.reception import Reception
from service.domain.conversation.file_attachments import NewFile, SentFile
from service.memory.journal.inbox import InboxEntry, Receipt
from service.memory.sent_files import SentFiles
from service.storage.concurrency import run_to_end


async def accept_with_files(
    reception: Reception,
    kept: SentFiles,
    entry: InboxEntry,
    files: Sequence[tuple[SentFile, NewFile]],
    *,
    idempotency_key: str | None,
    request_hash: str | None,
) -> Receipt:
    """Make a message safe with its files, which are on the disk before it is. Goes on when the
    caller is cancelled.

    Args:
        reception: takes the message in.
        kept: keeps the files.
        entry: the message, which tells of them.
        files: each as it is told of, and what it holds.
        idempotency_key: accepts the message once; its files are kept once, too.
        request_hash: the same for the same request.

    Raises:
        ConflictError: the idempotency key was used for another request.
        StorageError: the disk refuses; the message was not accepted, and no file is left.
    """

    async def accept() -> Receipt:
        async with kept.arriving([(sent, new.data) for sent, new in files]):
            receipt = await reception.accept(
                entry, idempotency_key=idempotency_key, request_hash=request_hash
            )
        if receipt.replayed:
            kept.remove(sent.id for sent, _ in files)
        return receipt

    return await run_to_end(accept())
