"""What the daemon's event streams hold, as the commands see it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from service.domain.events import BODY, EventBody
from service.domain.messages import ImageUrlPart
from service.domain.own_part import ends_stream

Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The daemon has the message safe."""

    message_id: str
    replayed: bool


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event as it came over the wire."""

    seq: int | None
    run_loop_id: str
    at: str
    """ISO 8601."""
    type: str
    body: EventBody | None
    """None when this program does not know the type: the daemon is newer."""
    wire: Json
    """The event as it was sent."""


@dataclass(frozen=True, slots=True)
class Note:
    """Words of this program's own about what comes in."""

    words: str
    style: str = "dim"


DELIVERED = "message.delivered"
"""Tells where a part went, of a message that was taken apart."""

END = frozenset(
    ("run_loop.completed", "run_loop.failed", "run_loop.cancelled", "run_loop.imported")
)
"""Events after which nothing more comes, unless the loop is taken up again."""


def is_rest(event: SeenEvent) -> bool:
    """Whether nothing more will come of a message after this event."""
    return ends_stream(event.type, event.seq)


def delivered_part(event: SeenEvent) -> Json:
    """Of a `DELIVERED`: the part's message and run loop, what that is about, whether it asks."""
    data = event.wire.get("data")
    told = data if isinstance(data, dict) else {}
    return {
        "message_id": told.get("message_id"),
        "run_loop_id": event.run_loop_id or None,
        "goal": told.get("goal"),
        "waits_for_input": told.get("waits_for_input") is True,
    }


def read(name: str, data: str) -> Accepted | SeenEvent:
    """A frame of a stream."""
    wire = json.loads(data)
    if name == "message.accepted":
        return Accepted(str(wire["message_id"]), bool(wire["replayed"]))
    try:
        body = BODY.validate_python({"type": wire["type"], **wire["data"]})
    except ValidationError:
        body = None
    return SeenEvent(wire["seq"], wire["run_loop_id"], wire["at"], wire["type"], body, wire)


def content(text: str, images: Sequence[ImageUrlPart]) -> JsonValue:
    """A message as ``POST /v1/send`` takes it: its words, or words and images as parts."""
    if not images:
        return text
    words: list[JsonValue] = [{"type": "text", "text": text}] if text else []
    return [*words, *(image.model_dump(mode="json", exclude_none=True) for image in images)]
