"""What a turn's view writes, and the events that it is given."""

from __future__ import annotations

from io import StringIO

from pydantic import JsonValue
from rich.console import Console

from service.cli.chat.turn import Turn
from service.cli.chat.turn_view import TurnView
from service.cli.daemon.stream_items import SeenEvent
from service.wire.send_bodies import Accepted
from tests.support.cli.commands import on_screen
from tests.support.cli.wire_events import said, seen

ANCHOR: dict[str, JsonValue] = {
    "run_loop_id": "x",
    "iteration_index": 0,
    "segment_index": 0,
    "segment_type": "response",
    "timestamp": "2026-03-31T12:00:00Z",
}
PROBLEM: dict[str, JsonValue] = {"kind": "llm-stream", "title": "The answer broke off"}


def shown(
    *items: Accepted | SeenEvent, terminal: bool = True, turn: Turn | None = None
) -> tuple[str, str]:
    """The words on standard output and on standard error."""
    out, aside = StringIO(), StringIO()
    view = TurnView(
        Console(
            file=out,
            force_terminal=terminal,
            color_system=None,
            width=80,
            _environ={"TERM": "xterm"},
        ),
        Console(file=aside, color_system=None, width=80),
        turn=turn,
    )
    for item in items:
        if turn is not None:
            turn.apply(item)
        view.show(item)
    view.close()
    return on_screen(out.getvalue()), aside.getvalue()


def received(message_id: str, text: str, mode: str = "steer") -> SeenEvent:
    message: dict[str, JsonValue] = {"role": "user", "content": [{"type": "text", "text": text}]}
    return seen(2, "message.received", message_id=message_id, message=message, mode=mode)


def landed(*message_ids: str, nudge: str | None = None) -> SeenEvent:
    return seen(6, "iteration.started", index=1, message_ids=list(message_ids), nudge=nudge)


def delta(text: str) -> SeenEvent:
    return seen(None, "message.delta", text=text)


def whole(text: str) -> SeenEvent:
    return seen(7, "message.completed", message=said(text))
