"""Reading a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events).

>>> decoder = SSEDecoder()
>>> list(decoder.feed(b"event: greeting\\ndata: one\\nda"))
[]
>>> list(decoder.feed(b"ta: two\\n\\n"))
[Frame(event='greeting', data='one\\ntwo', id='')]
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream."""

    event: str
    """``message`` where the stream names none."""
    data: str
    id: str
    """The newest id of the stream so far; empty before the first one."""


class SSEDecoder:
    """Makes frames of bytes, however these are cut."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._beginning = True
        self._after_cr = False
        self._line: list[str] = []
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Take the next bytes, and give the frames that they complete."""
        text = self._decode(chunk)
        if not text:
            return
        if self._beginning:
            text = text.removeprefix("\ufeff")
            self._beginning = False
        # A CR ends its line at once; the LF of a CRLF that was cut in two is no line of its own.
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        start = 0
        for end in _LINE_END.finditer(text):
            self._line.append(text[start : end.start()])
            start = end.end()
            frame = self._take("".join(self._line))
            self._line.clear()
            if frame is not None:
                yield frame
        self._line.append(text[start:])
        self._after_cr = text.endswith("\r")

    def _take(self, line: str) -> Frame | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None  # comments begin with a colon, so that their field has no name

    def _dispatch(self) -> Frame | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return Frame(event or "message", "\n".join(data), self._id) if data else None
