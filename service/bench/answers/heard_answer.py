"""What came back to a message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heard:
    """All that was said to one message, and how long it took."""

    answer: str
    whole_ms: float
    """From sending it to the end of the answer."""
    first_token_ms: float | None
    """To the first piece of the answer that a person could read; None: there was none."""
    tools: tuple[str, ...] | None = ()
    """The names of the tools that were called; None: there were none to call."""
    route: str = ""
    """Whether it opened a run loop or joined one."""
    problem: str = ""
    """What went wrong, in words, where something did."""
