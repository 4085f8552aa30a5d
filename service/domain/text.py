"""Text that can be stored and sent."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The text as valid Unicode: surrogate pairs joined, lone surrogates replaced.

    A lone surrogate cannot be written as UTF-8, so it would break the journal and the wire.

    >>> well_formed("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
