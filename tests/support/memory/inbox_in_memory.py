"""A second engine behind the inbox's protocol: messages in a dict."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.errors import ConflictError, NotFoundError
from service.memory.journal.inbox import Delivery, InboxEntry, Receipt


@dataclass
class _Held:
    entry: InboxEntry
    delivery: Delivery | None = None


@dataclass(frozen=True)
class _Accepted:
    request_hash: str | None
    receipt: Receipt


class InboxInMemory:
    """An `Inbox`, for as long as the process lives."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._keys: dict[tuple[str, str], _Accepted] = {}
        self.unreadable: set[str] = set()

    async def accept(
        self,
        entry: InboxEntry,
        *parts: InboxEntry,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Receipt:
        """See `Inbox.accept`."""
        ids = tuple(each.message_id for each in parts)
        receipt = Receipt(entry.message_id, replayed=False, parts=ids)
        if idempotency_key is not None:
            earlier = self._keys.get((entry.owner, idempotency_key))
            if earlier is not None and earlier.request_hash != request_hash:
                raise ConflictError(f"the idempotency key {idempotency_key!r} was used")
            if earlier is not None:
                return Receipt(
                    earlier.receipt.message_id, replayed=True, parts=earlier.receipt.parts
                )
            self._keys[entry.owner, idempotency_key] = _Accepted(request_hash, receipt)
        self._held |= {each.message_id: _Held(each) for each in (entry, *parts)}
        return receipt

    async def undelivered(self) -> list[InboxEntry]:
        """See `Inbox.undelivered`."""
        return [each.entry for each in self._held.values() if each.delivery is None]

    async def waiting(self, message_id: str) -> InboxEntry | None:
        """See `Inbox.waiting`."""
        held = self._held.get(message_id)
        return held.entry if held is not None and held.delivery is None else None

    async def delivery(self, message_id: str) -> Delivery | None:
        """See `Inbox.delivery`."""
        if message_id not in self._held:
            raise NotFoundError(f"no message {message_id} was accepted")
        return self._held[message_id].delivery

    def deliver(self, message_id: str, delivery: Delivery) -> None:
        """A message is in a run loop."""
        held = self._held[message_id]
        if held.delivery is not None:
            raise ConflictError(f"message {message_id} was delivered before")
        held.delivery = delivery
