"""Events as they come over the wire, for tests."""

from __future__ import annotations

import json

from pydantic import JsonValue

from service.cli.daemon.stream_items import SeenEvent
from service.domain.history.events import BODY
from service.wire.send_bodies import Accepted

LOOP = "01jd3v6k2m9x4q8w"
AT = "2026-03-31T12:00:00.000Z"


def seen(seq: int | None, type_: str, **data: JsonValue) -> SeenEvent:
    """An event as the client gives it."""
    wire: dict[str, JsonValue] = {
        "seq": seq,
        "type": type_,
        "at": AT,
        "run_loop_id": LOOP,
        "data": data,
    }
    body = BODY.validate_python({"type": type_, **data})
    return SeenEvent(seq, LOOP, AT, type_, body, wire)


def frame(event: SeenEvent | Accepted) -> str:
    """An event as the daemon writes it."""
    if isinstance(event, Accepted):
        data = json.dumps({"message_id": event.message_id, "replayed": event.replayed})
        return f"event: message.accepted\ndata: {data}\n\n"
    number = "" if event.seq is None else f"id: {event.seq}\n"
    return f"event: {event.type}\n{number}data: {json.dumps(event.wire)}\n\n"


def said(text: str) -> dict[str, JsonValue]:
    """An assistant's message."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


ACCEPTED = Accepted(message_id="m1", replayed=False)
ROUTED = seen(
    3,
    "route.decided",
    message_id="m1",
    route={"decision": "new", "confidence": 1, "method": "fallback", "reason": "nothing is active"},
)
LANDED = seen(5, "iteration.started", index=0, message_ids=["m1"])
IDLE = seen(9, "run_loop.idle")
