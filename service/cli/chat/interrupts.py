"""Ctrl-C while an answer comes: the first one cancels the run loop, the second one leaves.

The first does not break the stream: the daemon is asked from another thread, and the stream shows
how the loop ends.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from service.cli.chat.conversation import Conversation
from service.cli.chat.turn import Turn
from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.daemon_requests import loop_path
from service.cli.terminal.output import aside


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
