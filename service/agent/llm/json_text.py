r"""Reads a JSON string value while it is still being written.

Pieces may end anywhere, in the middle of an escape or between the halves of a surrogate pair too:

>>> reader = JsonStringReader()
>>> [reader.feed(piece) for piece in ("Hi \\", "u4f6", "0\\nyou", '"} rest')]
['Hi ', '', '你\nyou', '']
>>> reader.closed
True
"""

from __future__ import annotations

import re
from string import hexdigits

_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_SPECIAL = re.compile(r'["\\]')
_REPLACEMENT = "\ufffd"


class JsonStringReader:
    """Decodes what stands behind an opening quotation mark, up to the closing one."""

    def __init__(self) -> None:
        self.closed = False
        """Whether the closing quotation mark was seen. Whatever follows it is left aside."""
        self._rest = ""
        self._high: int | None = None

    def feed(self, piece: str) -> str:
        """The text that this piece completes, perhaps none."""
        if self.closed:
            return ""
        source, self._rest = self._rest + piece, ""
        out: list[str] = []
        position = 0
        while position < len(source):
            match = _SPECIAL.search(source, position)
            end = match.start() if match else len(source)
            if end > position:
                out.append(self._lone() + source[position:end])
            if match is None:
                break
            if match[0] == '"':
                out.append(self._lone())
                self.closed = True
                break
            step = self._escape(source, end, out)
            if step == 0:
                self._rest = source[end:]
                break
            position = end + step
        return "".join(out)

    def _escape(self, source: str, start: int, out: list[str]) -> int:
        """Decode the escape at `start`; its length, or 0 when it is not complete yet."""
        letter = source[start + 1 : start + 2]
        if not letter:
            return 0
        if letter != "u":
            out.append(self._lone() + _SIMPLE.get(letter, letter))
            return 2
        behind = source[start + 2 : start + 6]
        digits = behind[: len(behind) - len(behind.lstrip(hexdigits))]
        if len(digits) == 4:
            out.append(self._unit(int(digits, 16)))
            return 6
        if digits == behind:
            return 0
        out.append(self._lone() + _REPLACEMENT)
        return 2

    def _unit(self, unit: int) -> str:
        """Put UTF-16 units together (RFC 8259, section 7)."""
        high, self._high = self._high, None
        if 0xDC00 <= unit <= 0xDFFF:
            if high is None:
                return _REPLACEMENT
            return chr(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00))
        before = "" if high is None else _REPLACEMENT
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
            return before
        return before + chr(unit)

    def _lone(self) -> str:
        """A first half that no second half followed."""
        high, self._high = self._high, None
        return "" if high is None else _REPLACEMENT
