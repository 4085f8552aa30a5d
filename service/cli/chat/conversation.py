"""Sending a message from a terminal: following it, showing it, and asking what it asks.

While an answer is long in coming because the model is not ready yet, it is said so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from types import TracebackType

from service.cli.chat.human_questions import (
    SaidInsteadError,
    answer,
    ask,
    can_ask,
    how_to_answer,
    show_request,
)
from service.cli.chat.turn import Turn
from service.cli.chat.turn_view import TurnView
from service.cli.daemon.daemon_client import Daemon, OnBreak
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.stream_items import Note, SeenEvent, is_rest
from service.cli.terminal.key_listener import forget_keys
from service.cli.terminal.output import aside, out, plain, short_id
from service.domain.conversation.messages import ImageUrlPart
from service.domain.history.events import MessageMoved
from service.domain.run_loops import SendMode
from service.wire.send_bodies import Accepted, FileContent

_LOOK_EVERY_SECONDS = 2.0
Item = Accepted | SeenEvent | Note
Items = Generator[Item]
Listen = Callable[[Items, TurnView], Items]
"""Gives the same items, up to the first that `is_rest`, and lets the person type meanwhile. Closes
them."""


class _ExplainedWait:
    """Within ``with``, the view's waiting line tells what the model is still doing.

    Where no such line is shown, it is told once, beside the answer.
    """

    def __init__(self, daemon: Daemon, view: TurnView) -> None:
        self._daemon = daemon
        self._view = view
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_EVERY_SECONDS):
            try:
                llm = self._daemon.readiness().llm
            except DaemonError:
                return  # the stream itself will tell
            if llm.ready:
                return
            words = plain(llm.detail)
            if not self._view.waits_visibly:
                aside().print(f"The message is kept; the model is not ready yet: {words}.")
                return
            self._view.explain_wait(words)


def only_watch(items: Items, view: TurnView) -> Items:
    """For a person who cannot type while an answer comes."""
    return items


class Conversation:
    """Messages to one daemon, one after another."""

    def __init__(
        self,
        daemon: Daemon,
        *,
        quiet: bool = False,
        stays: bool = False,
        on_break: OnBreak | None = None,
        on_item: Callable[[Turn, Accepted | SeenEvent], None] = lambda turn, item: None,
        listen: Listen = only_watch,
    ) -> None:
        """Make a conversation.

        Args:
            daemon: is talked to.
            quiet: show nothing and ask nothing; the caller shows the turn.
            stays: follow a message until its loop rests, also while that answers others after it.
            on_break: see `Daemon.send`.
            on_item: told after each thing that came.
            listen: see `Listen`.
        """
        self._daemon = daemon
        self._quiet = quiet
        self._stays = stays
        self._on_break = on_break
        self._on_item = on_item
        self._listen = listen
        self.turn = Turn()
        """The newest turn."""
        self.instead = ""
        """What the person said when they were asked something, and that was no answer."""
        self.reading = False
        """Whether a line is being read from the person just now."""

    def send(
        self,
        text: str,
        *,
        run_loop_id: str | None = None,
        mode: SendMode = "steer",
        key: str | None = None,
        after: int = -1,
        images: Sequence[ImageUrlPart] = (),
        files: Sequence[FileContent] = (),
        model: str | None = None,
    ) -> Turn:
        """Send a message and see it through until it is answered, its loop ends, or waits in vain.

        Args:
            text: the message.
            run_loop_id: the loop it belongs to; None: the daemon decides.
            mode: how it joins a loop that is at work.
            key: of a message that was handed over before, see `Daemon.hand_over`.
            after: leave out events up to this number.
            images: what goes with the words.
            files: the same.
            model: the name of the model that answers; None: the loop's.

        Raises:
            RondoError: it could not be sent, or the connection broke for good.
        """
        return self._see_through(
            self._daemon.send(
                text,
                run_loop_id=run_loop_id,
                mode=mode,
                key=key,
                after=after,
                images=images,
                files=files,
                model=model,
                on_break=self._on_break,
            )
        )

    def follow(self, run_loop_id: str, *, after: int) -> Turn:
        """See a loop through from an event on, until it rests, ends, or waits in vain.

        Raises:
            RondoError: the connection broke for good.
        """
        return self._see_through(self._events(run_loop_id, after))

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

    def _see_through(self, items: Items) -> Turn:
        turn = self.turn = Turn()
        view = TurnView(out(), aside(), turn=turn, in_chat=self._stays)
        if not self._quiet:
            view.wait("connecting")
        try:
            self._show(items, view)
            while turn.request is not None and self._ask(turn):
                self._show(self._events(turn.run_loop_id, turn.last_seq), view)
        finally:
            view.close()
        return turn

    def _events(self, run_loop_id: str, after: int) -> Items:
        """Events of a loop; of the next one, where the turn's message is moved there."""
        while True:
            moved: MessageMoved | None = None
            events = self._daemon.events(run_loop_id, after=after, on_break=self._on_break)
            with closing(events):
                for item in events:
                    yield item
                    moved = self._own_move(item)
                    if moved is not None:
                        after = item.seq or after
                        break
            if moved is None:
                return
            run_loop_id = moved.to_run_loop_id

    def _own_move(self, item: SeenEvent) -> MessageMoved | None:
        body = item.body
        own = self.turn.message_id
        return body if isinstance(body, MessageMoved) and own in body.message_ids else None

    def _show(self, items: Items, view: TurnView) -> None:
        with _ExplainedWait(self._daemon, view), closing(self._listen(items, view)) as heard:
            for item in heard:
                if isinstance(item, Note):
                    view.note(item.words, style=item.style)
                    continue
                self.turn.apply(item)
                if self.turn.over and not self._stays:
                    break
                if not self._quiet:
                    view.show(item)
                self._on_item(self.turn, item)
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
            forget_keys()  # what was typed before the question is no answer to it
            self.reading = True
            try:
                value = ask(request, in_chat=self._stays)
            except SaidInsteadError as said:
                self.instead = said.line
                return False
            finally:
                self.reading = False
        if value is None:
            how = how_to_answer(turn.run_loop_id, request)
            aside().print(f"It waits for you. Answer with\n{how}", style="yellow")
            return False
        answer(self._daemon, turn.run_loop_id, value)
        turn.outcome, turn.request = "open", None
        return True
