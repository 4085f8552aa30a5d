"""What a person does while an answer comes: words for the run loop at work, and Ctrl-C.

Each line is handed over as a message of its own. What becomes of it is mostly seen in the stream
that is open; where that ends before the message has landed, it is followed by its key.

The first Ctrl-C cancels the run loop, the second one leaves. The first does not break the stream:
the daemon is asked from another thread, and the stream shows how the loop ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from types import FrameType, TracebackType

from service.cli.chat.chat_help import show_help, unknown
from service.cli.chat.conversation import Conversation
from service.cli.chat.route_corrections import Mending, is_mend
from service.cli.chat.turn import Turn
from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.daemon_requests import loop_path
from service.cli.daemon.stream_items import END, Note, SeenEvent
from service.cli.terminal.output import aside, one_line
from service.cli.views.phrases import route_in_words
from service.domain.errors import RondoError
from service.domain.history.events import IterationStarted, MessageReceived, RouteDecided
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.ids import new_id
from service.domain.run_loops import SendMode
from service.wire.send_bodies import Accepted

MODES: dict[str, SendMode] = {"/then": "followup", "/instead": "interrupt"}
ELSEWHERE: dict[str, str | None] = {"/new": NEW_RUN_LOOP, "/route": None}
"""By which word a message goes to another run loop than the one at work, and to which."""
_WORDS_SHOWN = 40


@dataclass(slots=True)
class Interjection:
    """A message that was typed while an answer came."""

    text: str
    mode: SendMode
    key: str
    run_loop_id: str | None
    """Where it was sent; None: the router decides."""
    elsewhere: bool = False
    """Whether it was not said to the run loop at work."""
    model: str | None = None
    """The name of the model that is to answer it; None: the run loop's."""
    is_safe: bool = False
    """Whether the daemon has it."""
    received: bool = False
    """Whether the stream has shown it come in."""


class Interjections:
    """The lines of one person, in the order in which they were typed."""

    def __init__(self, daemon: Daemon, *, mending: Mending, stop: Callable[[], None]) -> None:
        """`stop` has the run loop at work cancelled."""
        self._daemon = daemon
        self._mending = mending
        self.model: str | None = None
        """Which model is to answer what goes elsewhere."""
        self._stop = stop
        self._early: list[tuple[str, SendMode]] = []
        self._open: dict[str, Interjection] = {}

    def take(self, line: str, turn: Turn, *, ended: bool) -> Generator[Note] | None:
        """Do what a line says; where the answer has `ended`, it goes on in a stream of its own.

        Returns:
            What comes of it beside the answer, where that takes time.
        """
        name, _, rest = line.partition(" ")
        if name in ELSEWHERE and rest.strip():
            return self._send_elsewhere(rest.strip(), ELSEWHERE[name], ended=ended)
        if is_mend(name):
            return self._mending.notes(line)
        if not line.startswith("/"):
            self._give(line, "steer", turn, ended=ended)
        elif name in MODES and rest.strip():
            self._give(rest.strip(), MODES[name], turn, ended=ended)
        elif name == "/stop":
            if not ended:
                self._stop()
        else:
            if name not in (*MODES, *ELSEWHERE, "/help"):
                aside().print(unknown(name, meanwhile=True), style="dim")
            else:
                show_help(meanwhile=True)
        return None

    def on_item(self, turn: Turn, item: Accepted | SeenEvent) -> None:
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

    def _send_elsewhere(self, text: str, to: str | None, *, ended: bool) -> Generator[Note] | None:
        each = Interjection(text, "steer", new_id(), to, elsewhere=True, model=self.model)
        message_id = self._hand_over(each, ended=ended)
        return None if message_id is None else self._where_it_went(each, message_id)

    def _where_it_went(self, each: Interjection, message_id: str) -> Generator[Note]:
        """Said as soon as that is decided, while the other answer goes on."""
        words = one_line(each.text, _WORDS_SHOWN)
        items = self._daemon.send(
            each.text, run_loop_id=each.run_loop_id, key=each.key, model=each.model
        )
        with suppress(RondoError), closing(items):  # it is safe, and is asked for again later
            for item in items:
                match item:
                    case SeenEvent(body=RouteDecided(message_id=found, route=route)):
                        if found == message_id:
                            where = route_in_words(route, item.run_loop_id)
                            yield Note(f"“{words}”: {where} · its answer is shown after this one")
                            return
                    case _:
                        pass

    def _give(self, text: str, mode: SendMode, turn: Turn, *, ended: bool) -> None:
        if not turn.run_loop_id:
            self._early.append((text, mode))  # where the first message belongs is being decided
            return
        self._hand_over(Interjection(text, mode, new_id(), turn.run_loop_id), ended=ended)

    def _hand_over(self, each: Interjection, *, ended: bool) -> str | None:
        """The id of the message; None where it was not sent (yet)."""
        if ended:
            self._open[each.key] = each
            return None
        try:
            accepted = self._daemon.hand_over(
                each.text,
                run_loop_id=each.run_loop_id,
                mode=each.mode,
                key=each.key,
                model=each.model,
            )
        except RondoError as error:
            aside().print(f"Not sent. {error.problem().in_words()}", style="red")
            return None
        each.is_safe = True
        self._open[accepted.message_id] = each
        return accepted.message_id


class CancelOnInterrupt:
    """Within ``with``, SIGINT cancels the loop of the conversation's turn."""

    def __init__(self, daemon: Daemon, conversation: Conversation) -> None:
        self._daemon = daemon
        self._conversation = conversation
        self._wanted = False
        self._asked = False
        self._problem: DaemonError | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._wanted = self._asked = False
        self._problem, self._thread = None, None
        self._before = signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._thread is not None and kind is None:
            self._thread.join()
        if self._problem is not None:
            aside().print(self._problem.problem().in_words(), style="red")

    def cancel(self) -> None:
        """Cancel the loop, as the first Ctrl-C does."""
        self._wanted = True
        self.on_turn(self._conversation.turn)

    def on_turn(self, turn: Turn) -> None:
        """Something came: the loop to cancel may be known now."""
        if self._wanted and not self._asked and turn.run_loop_id:
            self._asked = True
            self._thread = threading.Thread(target=self._cancel, args=(turn.run_loop_id,))
            self._thread.daemon = True  # leaving must not wait for an answer that never comes
            self._thread.start()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._conversation.reading or self._wanted:
            raise KeyboardInterrupt
        self.cancel()

    def _cancel(self, run_loop_id: str) -> None:
        try:
            self._daemon.post(f"{loop_path(run_loop_id)}/cancel")
        except DaemonError as error:
            # It ended by itself meanwhile: that is what was wanted.
            if getattr(error, "status", None) != 409:
                self._problem = error
