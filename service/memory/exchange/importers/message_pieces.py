"""A conversation of any service in one form: a tree of messages, each of them some pieces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from service.domain.json_values import unwritable_number, writable
from service.domain.text import well_formed

Kind = Literal["user", "reasoning", "response", "call", "result"]
_YEARS = range(1990, 9000)


class BadConversationError(ValueError):
    """A conversation cannot be read; says why, in words."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that was said, thought or done."""

    kind: Kind
    text: str
    """For a call: its arguments, as JSON."""
    name: str = ""
    """Of the tool that is called, or that answers."""
    call_id: str = ""
    """Of a call, or of the call that a result answers; empty where the archive does not say."""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A message in its place."""

    id: str
    parent: str | None
    """None, or an id that is not there: it begins the conversation."""
    at: datetime | None
    pieces: tuple[Piece, ...]

    @property
    def is_of_user(self) -> bool:
        """Whether a person speaks."""
        return any(piece.kind == "user" for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with all its branches."""

    id: str
    """Of the run loop that its current branch becomes, unless that was chosen later."""
    title: str
    nodes: Sequence[Node]
    """Siblings in the order in which they came to be."""
    current: str | None
    """The last message of the branch that is shown; None: the one that came last."""
    created_at: datetime | None
    metadata: dict[str, Any]
    """Goes with every iteration."""


def conversation(
    source: str,
    source_id: object,
    *,
    title: object,
    nodes: Sequence[Node] | str,
    current: object,
    created_at: object,
) -> Conversation:
    """A conversation of this source that has the id `source_id` there.

    Args:
        source: the service, in one word.
        source_id: its id, and so on: as they stand in the archive, whatever they are.
        title: of it.
        nodes: its messages; or why there are none, in words.
        current: the last message of the branch that is shown.
        created_at: when it began.

    Raises:
        BadConversationError: it has no id, or no messages.
    """
    there = text_of(source_id).strip()
    if not there:
        raise BadConversationError("it has no id")
    if isinstance(nodes, str):
        raise BadConversationError(f"it has no messages ({nodes})")
    return Conversation(
        id=f"{source}-{there}",
        title=text_of(title),
        nodes=nodes,
        current=text_of(current) or None,
        created_at=moment(created_at),
        metadata={"source": source, "conversation": there},
    )


def moment(value: object) -> datetime | None:
    """A moment as archives write it: seconds since 1970, or ISO 8601; None for anything else.

    To the millisecond; UTC where there is no zone.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            at = datetime.fromtimestamp(float(value), UTC)
        elif isinstance(value, str) and value:
            at = datetime.fromisoformat(value)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    if at.year not in _YEARS:
        return None
    return at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=at.tzinfo or UTC)


def text_of(value: object) -> str:
    """A text, whatever stands in its place: nothing for what is no text."""
    return well_formed(value) if isinstance(value, str) else ""


def as_arguments(value: object) -> str:
    """What a tool was given, as a JSON object; a text that is none becomes its ``input``."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict) and unwritable_number(parsed) is None:
            return well_formed(value)
        value = {"input": value}
    elif not isinstance(value, dict):
        value = {} if value is None else {"input": value}
    return well_formed(json.dumps(writable(value), ensure_ascii=False, default=str))


def as_json(value: object) -> str:
    """What has no words of its own, so that nothing is lost."""
    return well_formed(json.dumps(writable(value), ensure_ascii=False, default=str))


def objects(value: object) -> list[dict[str, Any]]:
    """The JSON objects of a list; none of what is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def file_marker(kind: str, name: str) -> str:
    """What stands in a message for a file that is not text.

    >>> file_marker("image", "cat.png"), file_marker("file", "")
    ('[image: cat.png]', '[file]')
    """
    return f"[{kind}: {name}]" if name else f"[{kind}]"


def attached_text(name: str, text: str) -> str:
    """The text of an attachment, marked, as a part of the message that it was attached to."""
    named = f": {name}" if name else ""
    return f"[attachment{named}]\n{text}\n[end of attachment{named}]"


def paragraphs(*texts: str) -> str:
    """Texts one after another; blank ones are left out."""
    return "\n\n".join(text for text in texts if text.strip())


def short_digest(text: str) -> str:
    """Ten characters that stand for an id."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]
