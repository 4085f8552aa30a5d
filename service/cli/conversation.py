"""Sending a message from a terminal: following it, showing it, and asking what it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from service.cli.asking import answer, ask, can_ask, how_to_answer, show_request
from service.cli.client import Accepted, Daemon, OnBreak, SeenEvent, is_rest
from service.cli.output import aside, out, short_id
from service.cli.patience import ExplainedWait
from service.cli.run_loop_ids import resolve
from service.cli.turn import Turn
from service.cli.turn_view import TurnView


class Conversation:
    """Messages to one daemon, one after another."""

    def __init__(
        self,
        daemon: Daemon,
        *,
        quiet: bool = False,
        on_break: OnBreak | None = None,
        on_event: Callable[[Turn], None] = lambda _: None,
    ) -> None:
        """Make a conversation.

        Args:
            daemon: is talked to.
            quiet: show nothing and ask nothing; the caller shows the turn.
            on_break: see `Daemon.send`.
            on_event: told after each event.
        """
        self._daemon = daemon
        self._quiet = quiet
        self._on_break = on_break
        self._on_event = on_event
        self.turn = Turn()
        """The newest turn."""
        self.asking = False
        """Whether a question is being put to the person just now."""

    def send(self, text: str, *, run_loop: str | None = None) -> Turn:
        """Send a message and see it through until its loop rests, ends, or waits in vain.

        Args:
            text: the message.
            run_loop: the id of the loop it belongs to, or the beginning of that id.

        Raises:
            RondoError: it could not be sent, or the connection broke for good.
        """
        turn = self.turn = Turn()
        run_loop_id = None if run_loop is None else resolve(self._daemon, run_loop)
        view = TurnView(out(), aside(), own_message=lambda: turn.message_id)
        if not self._quiet:
            view.wait("connecting")
        try:
            self._follow(
                self._daemon.send(text, run_loop_id=run_loop_id, on_break=self._on_break), view
            )
            while turn.request is not None and self._ask(turn):
                events = self._daemon.events(
                    turn.run_loop_id, after=turn.last_seq, on_break=self._on_break
                )
                self._follow(events, view)
        finally:
            view.close()
        return turn

    def leave(self) -> int:
        """Say what goes on without us, after an interrupt; the exit code for that."""
        if self.turn.run_loop_id:
            name = short_id(self.turn.run_loop_id)
            aside().print(
                f"Run loop {name} goes on. Stop it with `rondo loops cancel {name}`.", style="dim"
            )
        elif self.turn.message_id:
            aside().print("The message was accepted, and will be answered.", style="dim")
        return 130

    def _follow(self, items: Iterator[Accepted | SeenEvent], view: TurnView) -> None:
        with ExplainedWait(self._daemon, view):
            for item in items:
                self.turn.apply(item)
                if not self._quiet:
                    view.show(item)
                self._on_event(self.turn)
                if isinstance(item, SeenEvent) and is_rest(item):
                    break
        view.close()

    def _ask(self, turn: Turn) -> bool:
        """Put the open request to the person; whether they answered."""
        request = turn.request
        if request is None or self._quiet:
            return False
        if not can_ask():
            show_request(request)
            value = None
        else:
            self.asking = True
            try:
                value = ask(request)
            finally:
                self.asking = False
        if value is None:
            how = how_to_answer(turn.run_loop_id, request)
            aside().print(f"It waits for you. Answer with\n{how}", style="yellow")
            return False
        answer(self._daemon, turn.run_loop_id, value)
        turn.outcome, turn.request = "open", None
        return True
