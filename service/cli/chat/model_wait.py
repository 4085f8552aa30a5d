"""While an answer is long in coming: says why, when it is because the model is not ready yet."""

from __future__ import annotations

import threading
from types import TracebackType

from service.cli.chat.turn_view import TurnView
from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.terminal.output import aside, plain

_LOOK_EVERY_SECONDS = 2.0


class ExplainedWait:
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
