"""An event loop whose clock jumps to the next timer when nothing happens: hours pass at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable

import anyio

_GRACE_SECONDS = 0.002
"""So long threads get to come back before the clock jumps over them."""


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        """Seconds by which the clock has jumped."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= _GRACE_SECONDS:
            return super().select(timeout)
        ready = super().select(_GRACE_SECONDS)
        if not ready:
            self.ahead += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """Sleeps take no time, but the clock says that they did."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds, with those that were jumped over."""
        return super().time() + self._jumping.ahead


def run_jumping(main: Callable[[], Awaitable[None]]) -> None:
    """Run something by such a clock."""
    anyio.run(main, backend_options={"loop_factory": JumpingLoop})
