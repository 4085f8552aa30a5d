"""The inbox: messages that were accepted, until they are in a run loop.

A transactional inbox: a message is stored here before its sender is told so, and leaves in the
very transaction that puts it into a run loop. So its words are stored once, it cannot get lost
between the two, and it cannot arrive twice. The receipt stays, for idempotency keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from service.domain.conversation.messages import Message
from service.domain.run_loops import SendMode


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A message and what its sender said about it."""

    message_id: str
    owner: str
    message: Message
    requested_run_loop_id: str | None = None
    """The loop that it belongs to, or `NEW_RUN_LOOP`, where the sender said so."""
    metadata: dict[str, Any] = field(default_factory=dict)
    mode: SendMode = "steer"
    model: str | None = None
    """The name of the configured model that is to answer it; None: the loop's."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a message went."""

    run_loop_id: str
    first_seq: int
    """The first event of the commit that put it there."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a sender: the message is safe."""

    message_id: str
    replayed: bool
    """True when the same idempotency key was used for the same request before."""
    parts: tuple[str, ...] = ()
    """The ids of the other messages that it was taken apart into."""


class Inbox(Protocol):
    """Accepts messages, and tells which wait and where they went."""

    unreadable: set[str]
    """Messages that were found to be stored in a form that cannot be read."""

    async def accept(
        self,
        entry: InboxEntry,
        *parts: InboxEntry,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Receipt:
        """Store a message so that it survives power loss.

        Args:
            entry: the message.
            parts: what else was said in it, as messages of their own, see `part_id`: stored in the
                same transaction.
            idempotency_key: accepts the message, with its parts, once.
            request_hash: the same for the same request.

        Raises:
            ConflictError: the idempotency key was used for another request.
            StorageError: the disk refuses; the message was not accepted.
        """
        ...

    async def undelivered(self) -> list[InboxEntry]:
        """Messages that were accepted and are in no run loop yet, in the order of acceptance.

        One that cannot be read is left where it is; the log tells.
        """
        ...

    async def waiting(self, message_id: str) -> InboxEntry | None:
        """A message, if it is in no run loop yet and can be read."""
        ...

    async def delivery(self, message_id: str) -> Delivery | None:
        """Where a message went; None while it waits.

        Raises:
            NotFoundError: no such message was accepted.
        """
        ...


def part_id(message_id: str, number: int) -> str:
    """The id of a message that is the second (2), third … part of another one."""
    return f"{message_id}.{number}"
