"""What a process writes, as text that comes in pieces: no character is cut in two."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from service.tools.scripts.child_process import OnOutput, Stream


def as_text(show: Callable[[str, Stream], None]) -> OnOutput:
    """Give on what a process writes as text, UTF-8; other bytes become U+FFFD.

    >>> show = as_text(lambda text, stream: print(stream, text))
    >>> show("stdout", "茶".encode()[:2])
    >>> show("stdout", "茶".encode()[2:])
    stdout 茶
    """
    decoder = codecs.getincrementaldecoder("utf-8")
    decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

    def on_output(stream: Stream, data: bytes) -> None:
        if text := decoders[stream].decode(data):
            show(text, stream)

    return on_output
