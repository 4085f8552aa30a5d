"""What a person says while an answer comes: to the run loop that is at work on it.

Each line is handed over as a message of its own. What becomes of it is mostly seen in the stream
that is open; where that ends before the message has landed, it is followed by its key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.cli.client import Daemon
from service.cli.output import aside
from service.cli.turn import Turn
from service.cli.wire import END, Accepted, SeenEvent
from service.domain.errors import RondoError
from service.domain.events import IterationStarted, MessageReceived
from service.domain.ids import new_id
from service.domain.run_loops import SendMode

HELP = """\
TEXT           to the run loop that is at work: seen at its next step
/then TEXT     seen after this answer
/instead TEXT  taken instead: the work is stopped at once
/stop          stop the run loop (or Ctrl-C); /resume takes it up again"""
MODES: dict[str, SendMode] = {"/then": "followup", "/instead": "interrupt"}


@dataclass(slots=True)
class Interjection:
    """A message that was typed while an answer came."""

    text: str
    mode: SendMode
    key: str
    run_loop_id: str
    is_safe: bool = False
    """Whether the daemon has it."""
    received: bool = False
    """Whether the stream has shown it come in."""


class Interjections:
    """The lines of one person, in the order in which they were typed."""

    def __init__(self, daemon: Daemon, *, stop: Callable[[], None]) -> None:
        """`stop` has the run loop at work cancelled."""
        self._daemon = daemon
        self._stop = stop
        self._early: list[tuple[str, SendMode]] = []
        self._open: dict[str, Interjection] = {}

    def take(self, line: str, turn: Turn, *, ended: bool) -> None:
        """Do what a line says; where the answer has `ended`, it goes on in a stream of its own."""
        name, _, rest = line.partition(" ")
        if not line.startswith("/"):
            self._give(line, "steer", turn, ended=ended)
        elif name in MODES and rest.strip():
            self._give(rest.strip(), MODES[name], turn, ended=ended)
        elif name == "/stop":
            if not ended:
                self._stop()
        else:
            known = name in MODES or name == "/help"
            aside().print(HELP if known else f"There is no {name} just now.\n{HELP}", style="dim")

    def told(self, turn: Turn, item: Accepted | SeenEvent) -> None:
        """Something came: the loop may be known now, a message may have come in or landed."""
        if turn.run_loop_id and self._early:
            early, self._early = self._early, []
            for text, mode in early:
                self._give(text, mode, turn, ended=False)
        if not isinstance(item, SeenEvent):
            return
        match item.body:
            case MessageReceived(message_id=message_id) if message_id in self._open:
                self._open[message_id].received = True
            case IterationStarted(message_ids=ids):
                for message_id in list(self._open) if ids is None else ids:
                    self._open.pop(message_id, None)
            case _ if item.type in END:
                # What had come in before the end was not answered, and will be if it is resumed.
                self._open = {key: each for key, each in self._open.items() if not each.received}
            case _:
                pass

    def next(self) -> Interjection | None:
        """One that is still to be followed, now that the stream has ended; each only once."""
        for message_id, each in self._open.items():
            if not each.received:
                del self._open[message_id]
                return each
        return None

    def clear(self) -> None:
        """Forget them, and say which were never sent."""
        unsent = [text for text, _ in self._early]
        unsent += [each.text for each in self._open.values() if not each.is_safe]
        for text in unsent:
            aside().print(f"Not sent: “{text}”", style="yellow")
        self._early, self._open = [], {}

    def _give(self, text: str, mode: SendMode, turn: Turn, *, ended: bool) -> None:
        if not turn.run_loop_id:
            self._early.append((text, mode))  # where the first message belongs is being decided
            return
        each = Interjection(text, mode, new_id(), turn.run_loop_id)
        if ended:
            self._open[each.key] = each
            return
        try:
            accepted = self._daemon.hand_over(
                text, run_loop_id=each.run_loop_id, mode=mode, key=each.key
            )
        except RondoError as error:
            aside().print(f"Not sent. {error.problem().in_words()}", style="red")
        else:
            each.is_safe = True
            self._open[accepted.message_id] = each
