"""The signs by which a hand is known: capitals, punctuation, short forms, length."""

from __future__ import annotations

import re

_USUAL_LENGTH = 100
_MOST_LENGTHS = 2.0

_SIGNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^[A-Z]",
        r"[.!。！]$",
        r"[?？]$",
        r"\.\.\.",
        r"'",
        r"(?i)\b(?:u|ur|r|plz|pls|thx|cuz|im|ive|dont|cant|doesnt|wont|isnt|didnt)\b",
        r"[:;]-?[)(DPp]",
        r"\bi\b",
        r"\bI\b",
        r"[,，]",
        r"  ",
        r"(?i)lol",
        r"^[^a-z]*[A-Z][^a-z]*$",
    )
)


def style_signs(text: str) -> tuple[float, ...]:
    """What tells a hand: one number a sign, and the length."""
    words = text.strip()
    found = [float(sign.search(words) is not None) for sign in _SIGNS]
    return (*found, min(len(words) / _USUAL_LENGTH, _MOST_LENGTHS))
