"""Folding: of pieces that say the same word for word, one is shown and names where the others are.

Two pieces of one type are the same

- when they are equal but for case, spaces and punctuation; but short everyday words ("OK", "Yes.")
  only when exactly equal: they answer different questions;
- when they are longer and nearly identical: the same words in the same order, but for articles,
  interjections and Chinese particles, which carry no fact.

Nothing looser than that: one other name, number or negation, or two names that have changed places,
make another fact of the longest text, and measures of likeness do not see it.

>>> fold_key("Flight on 12 May!") == fold_key("flight on 12  may")
True
>>> fold_key("Flight on 12 May") == fold_key("Flight on 13 May")
False
>>> fold_key("You sold it then.") == fold_key("You sold it then?")
False
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from service.memory.ledger.protocol import SegmentRow
from service.memory.memory_tuning import FOLD_LEAST_WORDS, FOLD_SHORT

# Other marks mean something: 3 € is not 3 $, C++ not C, -5 not 5.
_LIGHT = re.compile(r"[\s.,;:!?…'\"’‘“”„«»()\[\]{}、。，；：！？（）「」『』【】《》—–·`*_]+")
_WORD = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+")
_FILLERS = frozenset(
    ("a", "an", "the", "so", "well", "just", "really", "oh", "ah", "okay", "ok", "sure", "please")
) | frozenset("的了呢吧啊呀嘛哦嗯")


@dataclass(slots=True)
class Folded:
    """A piece that is shown, and those that say the same."""

    row: SegmentRow
    duplicates: list[SegmentRow] = field(default_factory=list)


def fold(rows: Iterable[SegmentRow]) -> list[Folded]:
    """Pieces, best first, with those that say the same under the first of them."""
    shown: dict[tuple[str, str], Folded] = {}
    for row in rows:
        shown.setdefault((row.segment_type, fold_key(row.text)), Folded(row)).duplicates.append(row)
    for folded in shown.values():
        del folded.duplicates[0]  # itself
    return list(shown.values())


def fold_key(text: str) -> str:
    """What two pieces have in common that say the same; whether something is asked counts."""
    bare = _LIGHT.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    if len(bare.encode("utf-8", "replace")) < FOLD_SHORT:
        return text.strip()
    words = [word for word in _WORD.findall(bare) if word not in _FILLERS]
    key = " ".join(words) if len(words) >= FOLD_LEAST_WORDS else bare
    return f"{key}?" if text.rstrip().endswith(("?", "？")) else key
