"""How many tokens a text comes to, near enough, without a tokenizer.

UTF-8 happens to spend bytes about as tokenizers spend tokens: a Latin letter takes one byte and a
quarter of a token, a Chinese character three bytes and two thirds to three quarters of one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from service.domain.conversation.tool_definitions import ToolDefinition

BYTES_PER_TOKEN = 4

_DENSE = bytes(byte for byte in range(0x21, 0x7F) if not chr(byte).isalpha())
"""Digits and signs of ASCII."""
_WEIGHTS = bytes(2 if byte in _DENSE else 1 for byte in range(256))
"""What each byte of UTF-8 counts: digits and signs of ASCII double."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a text comes to, rounded up.

    >>> estimate_tokens("four words of English"), estimate_tokens("今天天气很好")
    (6, 5)
    """
    return -(-_utf8_length(text) // BYTES_PER_TOKEN)


def prefix_within(text: str, max_tokens: int) -> int:
    """How many characters from the start come to at most `max_tokens`: at least one, if there is.

    Takes time for the characters it counts, not for the whole text.

    >>> prefix_within("今天天气很好", 3), prefix_within("abcdefgh", 1)
    (4, 4)
    """
    max_bytes = max(1, max_tokens) * BYTES_PER_TOKEN
    window = text[:max_bytes]
    if window.isascii():
        return len(window)
    encoded = window.encode("utf-8", "replace")
    return len(encoded[:max_bytes].decode("utf-8", "ignore"))


def estimate_dense_tokens(text: str) -> int:
    """As `estimate_tokens`, but with digits and signs counted twice, as an embedder's short window
    asks for: JSON and tables come to a token for each two characters.

    >>> estimate_dense_tokens("four words of English"), estimate_dense_tokens('{"a": [1, 2.5]}')
    (6, 7)
    """
    encoded = text.encode("utf-8", "replace")
    return -(-sum(encoded.translate(_WEIGHTS)) // BYTES_PER_TOKEN)


def dense_prefix_within(text: str, max_tokens: int, *, start: int = 0) -> int:
    """As `prefix_within`, by `estimate_dense_tokens`.

    >>> dense_prefix_within("今天天气很好", 3), dense_prefix_within("12345678", 3)
    (4, 6)
    """
    max_weight = max(1, max_tokens) * BYTES_PER_TOKEN
    encoded = text[start : start + max_weight].encode("utf-8", "replace")[:max_weight]
    fits = bisect_right(list(accumulate(encoded.translate(_WEIGHTS))), max_weight)
    return len(encoded[:fits].decode("utf-8", "ignore"))


def most_tokens(size: int, *texts: str) -> int:
    """How many tokens words come to at the very most: one for two bytes, and one for each digit and
    sign, as some tokenizers cut them singly.

    With the tokenizer of the bundled embedder no prose (English, Chinese), code, JSON or table of
    numbers of the fixtures comes to more; base64 does, by a third, a regular expression by a tenth.

    >>> most_tokens(16, "four words of it"), most_tokens(8, "1,234.56")
    (8, 8)

    Args:
        size: bytes of all of it.
        texts: in which there can be digits and signs.
    """
    dense = 0
    for text in texts:
        encoded = text.encode("utf-8", "replace")
        dense += len(encoded) - len(encoded.translate(None, _DENSE))
    return -(-(size + dense) // 2)


def tool_tokens(tools: Sequence[ToolDefinition]) -> int:
    """About how many tokens it takes to offer these tools."""
    return sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in tools) // 3


def _utf8_length(text: str) -> int:
    # A lone surrogate has no UTF-8; it counts as the one character that stands for it.
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
