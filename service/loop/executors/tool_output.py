"""Showing those who watch what a tool writes while it runs."""

from __future__ import annotations

import asyncio
import threading

from service.domain.conversation.tool_definitions import OutputStream
from service.domain.history.transient_events import ToolOutput
from service.loop.execution import Loop

MOST_CHARACTERS = 200_000
"""Of one call. Its result has the start and the end of all."""
MOST_PIECES = 2_000
_NO_MORE = "\n[… what it writes further is not shown as it comes …]\n"


class OutputRelay:
    """Sends what one call writes to those who watch its loop. A flood of it slows nobody: beyond a
    bound it is not sent."""

    def __init__(self, loop: Loop, call_id: str) -> None:
        """Name the call.

        Args:
            loop: in which it runs.
            call_id: of it.
        """
        self._loop = loop
        self._call_id = call_id
        self._events = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_over = False
        self._characters = 0
        self._pieces = 0
        self._is_full = False

    def show(self, text: str, stream: OutputStream = "stdout") -> None:
        """See `ToolContext.show_output`. Any thread may call it."""
        if threading.get_ident() == self._thread:
            self._send(text, stream)
            return
        try:
            self._events.call_soon_threadsafe(self._send, text, stream)
        except RuntimeError:
            return  # the loop of events has ended, and nobody watches

    def close(self) -> None:
        """The call has come to its result: what its thread writes after that is shown nobody."""
        self._is_over = True

    def _send(self, text: str, stream: OutputStream) -> None:
        if self._is_over or self._is_full or not text:
            return
        left = MOST_CHARACTERS - self._characters
        self._characters += len(text)
        self._pieces += 1
        self._is_full = self._characters > MOST_CHARACTERS or self._pieces >= MOST_PIECES
        shown = text[:left] + (_NO_MORE if self._is_full else "")
        self._loop.stream(ToolOutput(call_id=self._call_id, text=shown, stream=stream))
