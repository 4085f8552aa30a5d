"""The sentences of a message, each to be looked at by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from service.tuning import CARE_LONGEST_SENTENCE, CARE_SENTENCES

_BORDER = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])|\s*\n\s*")
_QUOTED = re.compile(r"\"[^\"]+\"|“[^”]+”|「[^」]+」|『[^』]+』|《[^》]+》")
_SAYS = re.compile(r"\w")


def sentences(text: str) -> list[str]:
    """Sentences of a text, in order; of a long text those at its beginning and at its end.

    What is longer than anybody would say of themselves in one sentence is none.

    >>> sentences("Hi! I can't eat dairy.\\n我对花生过敏。能吃吗？")
    ['Hi!', "I can't eat dairy.", '我对花生过敏。', '能吃吗？']
    """
    pieces = [piece.strip() for piece in _BORDER.split(text)]
    pieces = [piece for piece in pieces if 1 < len(piece) <= CARE_LONGEST_SENTENCE]
    if len(pieces) <= CARE_SENTENCES:
        return pieces
    half = CARE_SENTENCES // 2
    return [*pieces[:half], *pieces[-half:]]


def own_words(sentence: str) -> str:
    """A sentence without what it quotes, which somebody else says; a quote alone stays.

    >>> own_words('Translate "I am allergic to nuts" to German.')
    'Translate … to German.'
    >>> own_words("“I can't eat dairy.”")
    "“I can't eat dairy.”"
    """
    left = _QUOTED.sub("…", sentence)
    return left if _SAYS.search(left) else sentence


def told_in(parts: Sequence[str], text: str) -> list[str]:
    """What is quoted of a text for these sentences of it: all from the first to the last of them.

    Where that is long, each by itself. What takes back stands beside what it takes back: "I said I
    was allergic. That was wrong."
    """
    start, last = text.find(parts[0]), parts[-1]
    end = text.rfind(last) + len(last)
    if 0 <= start < end and end - start <= CARE_LONGEST_SENTENCE:
        return [text[start:end]]
    return list(parts)
