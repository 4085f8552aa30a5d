"""A message with several requests as several messages, one for each."""

from __future__ import annotations

from dataclasses import replace

from service.domain.conversation.messages import Message
from service.domain.errors import NotFoundError
from service.domain.history.events import RunLoopStarted
from service.memory.journal.inbox import InboxEntry, part_id
from service.memory.journal.protocol import Journal
from service.routing.splitting.list_splitting import requests_of
from service.tuning import SPLIT_MOST_REQUESTS

PART = "part_of"
"""The name in a part's metadata that tells of which message it is a part, and which part."""


def parts_of(entry: InboxEntry) -> tuple[InboxEntry, ...]:
    """The message itself; or, where it plainly lists several requests, a message for each of them.

    The first part keeps the message's id. A message that names its loop, shows an image, or is more
    than a word to be said next stays whole: its sender has said what is to be done with it.
    """
    alone = entry.requested_run_loop_id is None and entry.mode == "steer"
    if not alone or any(part.type != "text" for part in entry.message.content):
        return (entry,)
    requests = requests_of(entry.message.text)
    if len(requests) == 1:
        return (entry,)
    return tuple(_part(entry, words, number, requests) for number, words in enumerate(requests, 1))


def is_part(entry: InboxEntry) -> bool:
    """Whether this is one of the messages that `parts_of` has made of another one."""
    return _place(entry) is not None


def earlier_parts(entry: InboxEntry) -> tuple[str, ...]:
    """The ids of the parts of the same message that come before this one; none where it is none."""
    place = _place(entry)
    if place is None:
        return ()
    first, number = place
    return tuple(_id_of(first, each) for each in range(1, number))


async def opened_by_earlier_parts(entry: InboxEntry, journal: Journal) -> frozenset[str]:
    """The loops that other parts of the same message have opened.

    Raises:
        StorageError: the journal cannot be read.
    """
    opened = set[str]()
    for message_id in earlier_parts(entry):
        try:
            delivery = await journal.inbox.delivery(message_id)
        except NotFoundError:
            continue  # it was forgotten meanwhile
        if delivery is None:
            continue
        first = await journal.read(
            run_loop_id=delivery.run_loop_id, after=delivery.first_seq - 1, limit=1
        )
        if first and isinstance(first[0].body, RunLoopStarted):
            opened.add(delivery.run_loop_id)
    return frozenset(opened)


def _place(entry: InboxEntry) -> tuple[str, int] | None:
    """The id of the first part, and which part this is, from 1 on; None where it is none."""
    # The sender's own metadata may say anything: it must fit the id, which we have made.
    place = entry.metadata.get(PART)
    if not isinstance(place, dict):
        return None
    first, number = place.get("message_id"), place.get("number")
    if not isinstance(first, str) or not isinstance(number, int) or isinstance(number, bool):
        return None
    if not 1 <= number <= SPLIT_MOST_REQUESTS or entry.message_id != _id_of(first, number):
        return None
    return first, number


def _id_of(first: str, number: int) -> str:
    return first if number == 1 else part_id(first, number)


def _part(entry: InboxEntry, words: str, number: int, requests: tuple[str, ...]) -> InboxEntry:
    place = {"message_id": entry.message_id, "number": number, "count": len(requests)}
    return replace(
        entry,
        message_id=_id_of(entry.message_id, number),
        message=Message.user(words),
        metadata={**entry.metadata, PART: place},
    )
