"""Finds word-for-word quotes of some texts in others.

Each source is known by its blocks of half a quote's length, side by side; a quote of full length
holds one of them whole, wherever it begins. From there it is followed both ways. (The scheme of
rsync: https://rsync.samba.org/tech_report/.)

>>> quotes = Quotes(["The blue heron stands in the reeds every morning."], least=20)
>>> quotes.without("You said: 'stands in the reeds every morning', I think.", "…")
"You said: '…', I think."
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from service.memory.memory_tuning import QUOTE_LEAST_DIFFERENT, QUOTE_PLACES

_WIDE = re.compile(r"[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_FILLER = "\uffff"  # no character of any text


class Quotes:
    """Texts, and who quotes them. Case and spaces count."""

    def __init__(self, sources: Iterable[str], *, least: int) -> None:
        """Learn the texts.

        Args:
            sources: what may be quoted.
            least: characters, from which on a common stretch is a quote; a Chinese, Japanese or
                Korean one counts as two.
        """
        self._least = least
        self._length = (least + 1) // 2
        self._sources = [_stretched(text) for text in dict.fromkeys(sources)]
        self._blocks: dict[str, list[tuple[int, int]]] = {}
        for number, source in enumerate(self._sources):
            for at in range(0, len(source) - self._length + 1, self._length):
                block = source[at : at + self._length]
                places = self._blocks.setdefault(block, [])
                if len(places) < QUOTE_PLACES:
                    places.append((number, at))
        self._blocks = {
            block: places
            for block, places in self._blocks.items()
            if len(set(block)) >= QUOTE_LEAST_DIFFERENT
        }

    def without(self, text: str, mark: str) -> str:
        """A text with a mark in place of each quote; the same text where there is none."""
        if not self._blocks or len(text) * 2 < self._least:
            return text
        stretched = _stretched(text)
        parts, end = list[str](), 0
        for start, stop in self._spans(stretched):
            parts += (stretched[end:start], mark)
            end = stop
        if not parts:
            return text
        return "".join((*parts, stretched[end:])).replace(_FILLER, "")

    def _spans(self, text: str) -> Iterable[tuple[int, int]]:
        at, done = 0, 0
        while at + self._length <= len(text):
            places = self._blocks.get(text[at : at + self._length])
            if places:
                start, stop = max(
                    (self._followed(text, at, done, *place) for place in places),
                    key=lambda span: span[1] - span[0],
                )
                if stop - start >= self._least:
                    yield start, stop
                    at = done = stop
                    continue
            at += 1

    def _followed(
        self, text: str, at: int, lowest: int, source_number: int, source_at: int
    ) -> tuple[int, int]:
        """The stretch around a common block that is common too."""
        source = self._sources[source_number]
        start, before = at, source_at
        while start > lowest and before > 0 and text[start - 1] == source[before - 1]:
            start, before = start - 1, before - 1
        stop, after = at + self._length, source_at + self._length
        while stop < len(text) and after < len(source) and text[stop] == source[after]:
            stop, after = stop + 1, after + 1
        return start, stop


def weight(text: str) -> int:
    """How long a text is, as `Quotes` counts."""
    return len(_stretched(text))


def _stretched(text: str) -> str:
    """A text in which wide characters, which say more, take two places."""
    return _WIDE.sub(lambda found: found[0] + _FILLER, text)
