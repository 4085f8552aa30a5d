"""How many tokens a text comes to, near enough, without a tokenizer.

UTF-8 happens to spend bytes about as tokenizers spend tokens: a Latin letter takes one byte and a
quarter of a token, a Chinese character three bytes and two thirds to three quarters of one.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """About how many tokens a text comes to, rounded up.

    >>> estimate_tokens("four words of English"), estimate_tokens("今天天气很好")
    (6, 5)
    """
    return -(-_utf8_length(text) // BYTES_PER_TOKEN)


def prefix_within(text: str, max_tokens: int, *, start: int = 0) -> int:
    """How many characters from `start` on come to at most `max_tokens`: at least one, if there is.

    Takes time for the characters it counts, not for the whole text.

    >>> prefix_within("今天天气很好", 3), prefix_within("abcdefgh", 1, start=6)
    (4, 2)
    """
    max_bytes = max(1, max_tokens) * BYTES_PER_TOKEN
    window = text[start : start + max_bytes]
    if window.isascii():
        return len(window)
    encoded = window.encode("utf-8", "replace")
    return len(encoded[:max_bytes].decode("utf-8", "ignore"))


def _utf8_length(text: str) -> int:
    # A lone surrogate has no UTF-8; it counts as the one character that stands for it.
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
