"""Whole lines of what tools write while they run; several may run at once."""

from __future__ import annotations


class OutputLines:
    """Keeps the beginning of a line until its end comes.

    >>> lines = OutputLines()
    >>> lines.add("c", "one\\ntw"), lines.add("c", "o\\r\\n"), lines.end("c")
    (['one'], ['two'], [])
    """

    def __init__(self) -> None:
        self._begun: dict[str, str] = {}

    def add(self, call_id: str, text: str) -> list[str]:
        """The lines of a call that are whole with this."""
        *whole, self._begun[call_id] = (self._begun.get(call_id, "") + text).split("\n")
        return [line.rstrip("\r") for line in whole]

    def end(self, call_id: str) -> list[str]:
        """What is left of a call that has ended."""
        left = self._begun.pop(call_id, "")
        return [left] if left else []
