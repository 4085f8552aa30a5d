"""Texts made to fit: the beginning and the end of what is too long, with a notice in between."""

from __future__ import annotations

import re
from collections.abc import Iterable

from service.domain.conversation.token_estimates import (
    BYTES_PER_TOKEN,
    estimate_tokens,
    prefix_within,
)

_WORTH_A_NOTICE = 60
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s)|[。！？；…]+[\"'”’」』）】]*")
_SPACED_OUT = 4
"""How much longer a text may be than the same with single spaces, and still be read far enough."""


def shortened(text: str, max_tokens: int, *, how: str = "") -> str:
    """About `max_tokens` of a text: its beginning and its end, and how much was cut out between.

    `how` says, after a full stop, how to get what was cut out.

    >>> shortened("short", 10)
    'short'
    >>> long = shortened("a" * 400 + "z" * 400, 60)
    >>> long.startswith("aaa"), long.endswith("zzz"), "cut out" in long
    (True, True, True)
    """
    if len(text) <= max_tokens or estimate_tokens(text) <= max_tokens:
        return text
    size = len(text)
    kept = max(max_tokens - estimate_tokens(_notice(size, size, size, how)), 2)
    tail = kept // 4
    begin = prefix_within(text, kept - tail)
    # The end is measured from behind, in a window of the text that is turned round.
    end = size - prefix_within(text[: -tail * BYTES_PER_TOKEN - 1 : -1], tail) if tail else size
    if end <= begin:
        return text
    return f"{text[:begin]}{_notice(end - begin, size, begin, how)}{text[end:]}"


def _notice(count: int, size: int, begin: int, how: str) -> str:
    return (
        f"\n[… {count:,} of {size:,} characters were cut out here, from character {begin:,} on, to"
        f" fit.{how} …]\n"
    )


def brief(text: str, max_tokens: int) -> str:
    """A text within a bound that may be very small: cut by `shortened`, or by `first_sentences`."""
    if max_tokens >= _WORTH_A_NOTICE or len(text) <= max_tokens:
        return shortened(text, max_tokens)
    return text if estimate_tokens(text) <= max_tokens else first_sentences(text, max_tokens)


def first_sentences(text: str, max_tokens: int) -> str:
    """The first sentences of a text, in English or Chinese, as many as fit; cut, if none does.

    >>> first_sentences("It rains. Take an umbrella with you. And a coat.", 10)
    'It rains. Take an umbrella with you.'
    >>> first_sentences("明天有雨。记得带伞。", 6)
    '明天有雨。'
    >>> first_sentences("a very long sentence", 2)
    'a very l…'
    """
    line = " ".join(text[: max_tokens * BYTES_PER_TOKEN * _SPACED_OUT].split())
    end = prefix_within(line, max_tokens)
    if end == len(line):
        return line
    ends = [match.end() for match in _SENTENCE_END.finditer(line[: end + 1]) if match.end() <= end]
    return line[: ends[-1]] if ends else line[:end].rstrip() + "…"


def cap_within(sizes: Iterable[int], total: int) -> int:
    """The largest cap such that the sizes, each cut down to it, sum up to at most `total`.

    >>> cap_within([5, 100, 40], 65)
    30
    >>> cap_within([5, 6], 65)
    6
    """
    cap = 0
    left = total
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return max(share, 0)
        left -= size
        cap = size
    return cap
