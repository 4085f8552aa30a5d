"""What became of one message, as the commands tell it.

Nothing here is shown; `turn_view` shows it, and ``--json`` prints `Turn.as_json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from service.cli.daemon.stream_items import SeenEvent, delivered_part
from service.domain.history.outcome import MessageOutcome, OutcomeKind
from service.domain.history.own_part import OwnPart
from service.wire.send_bodies import DELIVERED, Accepted, Part, Remembered

EXIT_CODES: dict[OutcomeKind, int] = {
    "answered": 0,
    "open": 1,
    "failed": 1,
    "cancelled": 1,
    "waiting": 3,
}


@dataclass(slots=True)
class Turn(MessageOutcome):
    """A message and what has become of it so far; or a run loop that is followed without one."""

    events: int = 0
    """How many journaled events came."""
    parts: dict[str, Part] = field(default_factory=dict)
    """Where the other parts of the message went, where it was taken apart; by their messages."""

    def apply(self, item: Accepted | SeenEvent) -> None:
        """Take in what came."""
        if isinstance(item, Accepted):
            self.part = OwnPart(item.message_id)
        elif item.type == DELIVERED:
            part = delivered_part(item)
            self.parts[part.message_id] = part
        else:
            self.events += item.seq is not None
            self.add(item.body, run_loop_id=item.run_loop_id, seq=item.seq)

    @property
    def exit_code(self) -> int:
        """The exit code that tells the outcome."""
        return EXIT_CODES[self.outcome]

    def as_json(self) -> dict[str, JsonValue]:
        """The turn as one JSON object."""
        return {
            "run_loop_id": self.run_loop_id,
            "message_id": self.message_id,
            "outcome": self.outcome,
            "response": self.response,
            "finish_reason": self.spoken.finish_reason,
            "route": self.route.model_dump(mode="json") if self.route else None,
            "request": self.request.model_dump(mode="json") if self.request else None,
            "problem": self.problem.model_dump(mode="json") if self.problem else None,
            "interrupted_by": self.part.interrupted_by if self.part else None,
            "recalled": self.recalled,
            "remembered": [Remembered.of(each).model_dump(mode="json") for each in self.remembered],
            "events": self.events,
            "parts": [each.model_dump() for each in self.parts.values()],
        }
