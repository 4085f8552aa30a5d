"""Several requests in one message, as several messages, where they are plainly listed.

A list is taken for several requests when each of its items is a request or a question of its own,
what stands before it only announces a list, and no item refers to another one. All else is one
request: a shopping list, the steps of a recipe, sentences to be translated, a log. To take several
for one costs little, since the model answers all of them; to take one for several tears it apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.domain.conversation.messages import Message
from service.domain.errors import NotFoundError
from service.domain.history.events import RunLoopStarted
from service.memory.journal.inbox import InboxEntry, part_id
from service.memory.journal.protocol import Journal
from service.routing.text.request_intent import (
    is_announcement,
    is_request,
    is_thanks,
    refers_back,
    sentences,
)
from service.tuning import SPLIT_MOST_CHARACTERS, SPLIT_MOST_REQUESTS


def requests_of(text: str) -> tuple[str, ...]:
    """The requests of a message, in order, word for word; one unless it plainly lists several.

    What announces the list stands before each of them, so that each says what the person said;
    the rest of the text is in exactly one. Joined again they hold every word.

    >>> requests_of("Please do these: 1. Book a table for two 2. What is a lemur?")
    ('Please do these:\\n1. Book a table for two', 'Please do these:\\n2. What is a lemur?')
    >>> len(requests_of("Buy:\\n- milk\\n- eggs"))
    1
    """
    if len(text) > SPLIT_MOST_CHARACTERS or "```" in text:
        return (text,)
    listing = _by_lines(text) or _in_a_line(text)
    if listing is None or not _are_requests(listing):
        return (text,)
    head = listing.head.strip()
    whole = [f"{item.marker}{item.words}".strip() for item in listing.items]
    if listing.tail.strip():
        whole[-1] = f"{whole[-1]}\n\n{listing.tail.strip()}"
    return tuple(f"{head}\n{each}" if head else each for each in whole)


def without_announcement(part: str) -> str:
    """A part of `requests_of` without what all parts begin with, and without its number.

    >>> without_announcement("Please do these:\\n2. What is a lemur?")
    'What is a lemur?'
    """
    lines = part.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if not is_announcement("".join(lines[:at])):
            break
        for style in (*_NUMBERS, _BULLET):
            if marker := _marker(style, line):
                return (line.lstrip()[len(marker) :] + "".join(lines[at + 1 :])).strip() or part
    return part


@dataclass(frozen=True, slots=True)
class _Item:
    """A marker, and the words behind it."""

    marker: str
    words: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """A text as a list, with what stands before and after."""

    head: str
    items: tuple[_Item, ...]
    tail: str = ""


def _are_requests(listing: _Listing) -> bool:
    words = [item.words.strip() for item in listing.items]
    return (
        2 <= len(words) <= SPLIT_MOST_REQUESTS
        and is_announcement(listing.head)
        and all(map(is_request, words))
        and not any(refers_back(each, " ".join(words[:n])) for n, each in enumerate(words) if n)
        and is_thanks(listing.tail)
    )


_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩"
_CHINESE = "一二三四五六七八九十"
_ENGLISH = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")

_BULLET = re.compile(r"[-*•·–—]\s+")
_NUMBERS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?P<n>\d{1,2})(?:[.)．:：](?!\d)\s*|、\s*)"),
    re.compile(r"[(（]\s*(?P<n>\d{1,2}|[一二三四五六七八九十])\s*[)）]\s*"),
    re.compile(rf"(?P<n>[{_CIRCLED}])\s*"),
    re.compile(rf"(?P<n>[{_CHINESE}])[、.．:：]\s*"),
    re.compile(rf"第(?P<n>[{_CHINESE}])(?:件事情?|个问题|个|点)?(?:[，,：:、]|是)\s*"),
    re.compile(rf"(?P<n>{'|'.join(_ENGLISH)})(?:ly)?\s*[,:]\s*", re.IGNORECASE),
)
"""Ways to number; the number is ``n``."""


def _number(written: str) -> int:
    for row in (_CIRCLED, _CHINESE):
        if written in row:
            return row.index(written) + 1
    return int(written) if written.isdecimal() else _ENGLISH.index(written.lower()) + 1


# --- a list of lines


def _by_lines(text: str) -> _Listing | None:
    lines = text.splitlines(keepends=True)
    for style in (*_NUMBERS, _BULLET):
        at = [n for n, line in enumerate(lines) if style.match(line.lstrip())]
        if not at:
            continue
        outermost = _indent(lines[at[0]])
        at = [n for n in at if _indent(lines[n]) <= outermost]
        markers = [_marker(style, lines[n]) for n in at]
        if len(at) < 2 or (style is not _BULLET and not _counts(style, markers)):
            continue
        return _lines_listing(lines, at, markers, outermost)
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _marker(style: re.Pattern[str], line: str) -> str:
    match = style.match(line.lstrip())
    return match[0] if match else ""


def _counts(style: re.Pattern[str], markers: list[str]) -> bool:
    """Whether these are numbered 1, 2, 3 …"""
    matches = (style.match(marker) for marker in markers)
    return [_number(each["n"]) for each in matches if each] == list(range(1, len(markers) + 1))


def _lines_listing(
    lines: list[str], at: list[int], markers: list[str], outermost: int
) -> _Listing | None:
    """The lines as a list; None where other text stands between the items."""
    ends = [*at[1:], len(lines)]
    items = []
    tail = ""
    for start, end, marker in zip(at, ends, markers, strict=True):
        own = lines[start].lstrip()[len(marker) :]
        more = lines[start + 1 : end]
        outside = next((n for n, line in enumerate(more) if _is_outside(line, outermost)), None)
        if outside is not None:
            if end != len(lines):
                return None
            more, tail = more[:outside], "".join(more[outside:])
        items.append(_Item(marker, own + "".join(more)))
    return _Listing("".join(lines[: at[0]]), tuple(items), tail)


def _is_outside(line: str, outermost: int) -> bool:
    """Whether a line is part of no item: neither indented more than these, nor a list within."""
    if not line.strip() or _indent(line) > outermost:
        return False
    return _BULLET.match(line.lstrip()) is None


# --- a list in running text


def _in_a_line(text: str) -> _Listing | None:
    for style in _NUMBERS:
        matches = list(_consecutive(style, text))
        if len(matches) < 2:
            continue
        ends = [*(each.start() for each in matches[1:]), len(text)]
        items = tuple(
            _Item(each[0], text[each.end() : end]) for each, end in zip(matches, ends, strict=True)
        )
        last = sentences(items[-1].words)
        # Where the last item ends and something about all of them begins cannot be told.
        if len(last) > 1 and not is_thanks(" ".join(last[1:])):
            return None
        return _Listing(text[: matches[0].start()], items)
    return None


def _consecutive(style: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    expected = 1
    for match in style.finditer(text):
        if _number(match["n"]) == expected and _begins(text, match.start()):
            yield match
            expected += 1


def _begins(text: str, at: int) -> bool:
    """Whether a new thing can begin here: not in the middle of a word, a number or a sentence."""
    before = text[:at].rstrip(" \t")
    if not before or text[at] in _CIRCLED:
        return True
    if before[-1] in "\n。.；;！!？?：:，,、）)":
        return True
    return len(before) < at and text[at].isdecimal()


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
