"""The text of a file, in whatever common encoding."""

from __future__ import annotations

import codecs

from service.tools.protocol import ToolFailure

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 200_000


def is_binary(data: bytes) -> bool:
    """Whether the beginning of a file is no text: a NUL byte without a mark of UTF-16 or UTF-32."""
    return b"\0" in data and not any(data.startswith(mark) for mark, _ in _MARKS)


def decoded(data: bytes, name: str) -> tuple[str, str]:
    """A whole file as text, and the name of its encoding; what cannot be read becomes U+FFFD.

    Raises:
        ToolFailure: it is no text.
    """
    if is_binary(data[:8192]):
        raise ToolFailure(f"{name[:200]} is no text file.")
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace"), encoding
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        pass
    encoding = _guessed(data[:_LOOKED_AT])
    return data.decode(encoding, "replace"), encoding


def _guessed(data: bytes) -> str:
    # Most Chinese text that is no UTF-8 is this; others' bytes are hardly ever valid in it.
    for length in range(len(data), max(len(data) - 4, 0), -1):  # a character may be cut at the end
        try:
            text = data[:length].decode("gb18030")
        except UnicodeDecodeError:
            continue
        han = sum("\u4e00" <= character <= "\u9fff" for character in text)
        if han * 4 >= sum(not character.isascii() for character in text) * 3:
            return "gb18030"
        break
    from charset_normalizer import from_bytes  # slow, and seldom needed

    best = from_bytes(data).best()
    return best.encoding if best is not None else "latin-1"
