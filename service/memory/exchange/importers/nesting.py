"""How deep JSON is nested, counted in its bytes before anything is built of them.

A streaming parser keeps the way down to where it stands, and writes it anew with every level: a
file of nothing but brackets would keep it at work for hours.
"""

from __future__ import annotations

from copy import copy
from itertools import accumulate

_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class TooDeepError(ValueError):
    """Lists and objects stand in each other deeper than is taken; says so in words."""

    def __init__(self, most: int, before: int) -> None:
        super().__init__(
            f"it is nested more than {most:,} levels deep, which no conversation is;"
            " nothing from here on was read. Download the archive again"
        )
        self.before = before
        """How many bytes of the piece stand before the bracket that is too much."""


class Nesting:
    """Looks through JSON that comes in pieces of any size; brackets in texts do not count."""

    def __init__(self, most: int) -> None:
        """Name the depth that is taken: `most` lists and objects, one in another."""
        self._most = most
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def check(self, piece: bytes) -> None:
        """Go on with the next bytes.

        Raises:
            TooDeepError: they go deeper than is taken.
        """
        begun = copy(self)
        brackets = self._outside(piece).translate(None, _OTHERS)
        opened = brackets.count(b"[") + brackets.count(b"{")
        if self._depth + opened > self._most:  # could be: look at each
            deepest = max(accumulate((_STEPS[each] for each in brackets), initial=self._depth))
            if deepest > self._most:
                raise TooDeepError(self._most, begun._before(piece))
        self._depth += 2 * opened - len(brackets)

    def _before(self, piece: bytes) -> int:
        """Where a piece that goes too deep does so."""
        for at in range(len(piece)):
            outside = self._outside(piece[at : at + 1])
            self._depth += _STEPS.get(outside[0], 0) if outside else 0
            if self._depth > self._most:
                return at
        return len(piece)

    def _outside(self, piece: bytes) -> bytes:
        """What stands in no text."""
        if self._escaped:
            piece = piece[1:] if piece else b""
            self._escaped = False
        # Backslashes stand in texts alone, and the first one of two escapes the second.
        piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        self._escaped = piece.endswith(b"\\")
        parts = piece.split(b'"')
        outside = parts[1 if self._in_text else 0 :: 2]
        self._in_text ^= len(parts) % 2 == 0
        return b"".join(outside)
