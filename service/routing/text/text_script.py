"""In which script a text is written."""

from __future__ import annotations

import unicodedata
from collections import Counter

_READ = 400
NO_SCRIPT = "none"


def script(text: str) -> str:
    """The script of most letters, by the first word of their Unicode names: latin, cjk, cyrillic.

    A text with Chinese characters for a fourth of its letters is Chinese: a character says as much
    as several letters. A text without letters has the script `NO_SCRIPT`.
    """
    letters = [letter for letter in text[:_READ] if letter.isalpha()]
    if not letters:
        return NO_SCRIPT
    if all(letter.isascii() for letter in letters):
        return "latin"
    found = Counter(unicodedata.name(letter, NO_SCRIPT).split()[0].lower() for letter in letters)
    if found["cjk"] * 4 >= len(letters) and not (found["hiragana"] + found["katakana"]):
        return "cjk"
    return found.most_common(1)[0][0]
