"""What a streaming parser of JSON cannot take, found in the bytes before anything is built of them.

It keeps the way down to where it stands, and writes it anew with every level: a file of nothing but
brackets would keep it at work for hours. And an integer of more digits than Python takes makes
ijson's C parser (3.6.0) end the process: it goes on with the number that it was refused.
"""

from __future__ import annotations

import re
import sys
from copy import copy
from itertools import accumulate

_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_MOST_DIGITS = sys.int_info.default_max_str_digits
_TOO_LONG = re.compile(rb"[0-9]{%d}" % (_MOST_DIGITS + 1))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class UnparsableError(ValueError):
    """From here on it cannot be parsed; says why in words."""

    def __init__(self, words: str, before: int) -> None:
        super().__init__(f"{words}; nothing from here on was read. Download the archive again")
        self.before = before
        """How many bytes of the piece stand before what is too much."""


class TooDeepError(UnparsableError):
    """Lists and objects stand in each other deeper than is taken."""

    def __init__(self, most: int, before: int) -> None:
        words = f"it is nested more than {most:,} levels deep, which no conversation is"
        super().__init__(words, before)


class TooLongNumberError(UnparsableError):
    """A number has more digits than is taken."""

    def __init__(self, before: int) -> None:
        super().__init__(f"it holds a number of more than {_MOST_DIGITS:,} digits", before)


class Nesting:
    """Looks through JSON that comes in pieces of any size; brackets in texts do not count."""

    def __init__(self, most: int) -> None:
        """Name the depth that is taken: `most` lists and objects, one in another."""
        self._most = most
        self._depth = 0
        self._in_text = False
        self._escaped = False
        self._digits = b""
        """Those that the last piece ended with."""

    def check(self, piece: bytes) -> None:
        """Go on with the next bytes.

        Raises:
            TooDeepError: they go deeper than is taken.
            TooLongNumberError: they hold such a number.
        """
        begun = copy(self)
        outside = self._outside(piece)
        numbers = self._digits + outside
        if _TOO_LONG.search(numbers) is not None:
            raise TooLongNumberError(begun._before_number(piece))
        self._digits = numbers[len(numbers.rstrip(b"0123456789")) :]
        brackets = outside.translate(None, _OTHERS)
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

    def _before_number(self, piece: bytes) -> int:
        """Where a piece with too long a number has the digit that is too much."""
        digits = len(self._digits)
        for at in range(len(piece)):
            outside = self._outside(piece[at : at + 1])
            digits = digits + 1 if outside.isdigit() else 0
            if digits > _MOST_DIGITS:
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
