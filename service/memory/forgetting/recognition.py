"""By what forgotten words are known again in what somebody said who had seen them.

The length of a match says nothing: of "The code of the padlock is 4711." the number alone is
enough. What tells the words is what others would hardly say by chance: a number, a word or a pair
of words that is said nowhere else, a whole sentence. It is meant for texts whose authors have
demonstrably seen the words; anywhere else a single word is no evidence.

>>> traits = Traits.of(["The code of the shed's padlock is 4711."])
>>> traits.revealed_in("You said 47-11, I think.", is_common=lambda *terms: False)
True
>>> traits.revealed_in("It is 4,711.", is_common=lambda *terms: True)
True
>>> traits.revealed_in("I do not know the code.", is_common=lambda *terms: terms == ("code",))
False
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import Any

from service.domain.anchors import Segment
from service.domain.history.state import RunLoopState
from service.memory.forgetting.pieces import Ref
from service.memory.ledger.terms import STOP_WORDS, terms

IsCommon = Callable[..., bool]
"""Whether a term, or two terms in a row, are said elsewhere by who has not seen the words."""

_COURTESIES = frozenset(
    terms(
        "sorry note noted sure ok okay thank thanks please welcome help understand understood good"
        " great found find remember forgotten ask asked question answer word nothing nobody maybe"
    )
) | {"好的", "谢谢", "记下", "知道", "明白", "抱歉", "帮助", "没问", "问题"}
"""What assistants say whatever they have seen."""
_FUNCTION_CHARACTERS = frozenset("的了是我你他她它们这那吗呢吧啊么在和与就也都不有")
_BORDER = re.compile(r"[.!?;。！？；…]+(?=\s|$|[\"'”’」』）】])|[。！？；…\n]+")
_NO_WORD = re.compile(r"[\W_]+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
_ESCAPED = re.compile(r"\\+u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)
_APART = re.compile(r"(?<!\d)\d(?:[\s,.'’_/-]?\d){2,}(?!\d)")
"""A number however it is parted: 4,711 and 47 11 are 4711."""
_LEAST_DIGITS = 3
_YEARS = range(1900, 2101)
_LEAST_WORDS = 3
"""Of how many words a sentence consists at least that has none which says anything by itself."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What tells some words."""

    numbers: frozenset[str] = frozenset()
    """Numbers and codes of three digits and more; years, and round hundreds, are words."""
    words: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    """Words with nothing but function words between them."""
    sentences: frozenset[str] = frozenset()
    """As `folded` writes them."""

    @classmethod
    def of(cls, texts: Iterable[str], *, by_person: bool = False) -> Traits:
        """The traits of texts.

        Args:
            texts: as they were written; of JSON only the values count.
            by_person: whether a person wrote them: then a sentence counts that is of function words
                alone, which models say by the dozen.
        """
        numbers, words = set[str](), set[str]()
        pairs, sentences = set[tuple[str, str]](), set[str]()
        for text in chain.from_iterable(map(_values, texts)):
            for sentence in _sentences(text):
                said = list(_content(sentence))
                numbers |= set(filter(_is_number, said))
                words |= {each for each in said if not _is_number(each)}
                pairs |= set(_pairs(said))
                if said or (by_person and len(list(terms(sentence))) >= _LEAST_WORDS):
                    sentences.add(folded(sentence))
        return cls(frozenset(numbers), frozenset(words), frozenset(pairs), frozenset(sentences))

    def __or__(self, other: Traits) -> Traits:
        return Traits(
            self.numbers | other.numbers,
            self.words | other.words,
            self.pairs | other.pairs,
            self.sentences | other.sentences,
        )

    def within(self, text: str) -> Traits:
        """Those of them that a text shows: what its readers have seen."""
        shown = Traits.of([text])
        line = folded(readable(text))
        return Traits(
            self.numbers & shown.numbers,
            self.words & shown.words,
            self.pairs & shown.pairs,
            frozenset(each for each in self.sentences if stands_in(each, line)),
        )

    def revealed_in(self, text: str, is_common: IsCommon) -> bool:
        """Whether a text tells the words, or a part of them.

        Args:
            text: of somebody who has seen them.
            is_common: tells what is said elsewhere, too, and so is no evidence.
        """
        text = readable(text)
        line = folded(text)
        if any(stands_in(each, line) for each in self.sentences):
            return True
        said = list(_content(text))
        if self.numbers.intersection(said):
            return True
        shared = self.words.intersection(said)
        if any(not is_common(each) for each in sorted(shared)):
            return True
        return any(not is_common(*pair) for pair in sorted(self.pairs.intersection(_pairs(said))))


def readable(text: str) -> str:
    """A text with the characters that JSON has escaped in it."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "\\" in text else text


def folded(text: str) -> str:
    """A text on one line, in small letters, without punctuation.

    >>> folded("The code: 4711!")
    'the code 4711'
    """
    return _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def stands_in(sentence: str, line: str) -> bool:
    """Whether a sentence stands in a text word for word; both folded."""
    if _UNSPACED.search(sentence):
        return sentence.replace(" ", "") in line.replace(" ", "")
    return f" {sentence} " in f" {line} "


def has_pair(text: str, first: str, second: str) -> bool:
    """Whether two terms follow each other in a text."""
    return (first, second) in set(_pairs(list(_content(readable(text)))))


def _values(text: str) -> Iterator[str]:
    """The texts and numbers in JSON; any other text as it is."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            yield from _leaves(json.loads(text))
        except (ValueError, RecursionError):
            yield readable(text)
    else:
        yield readable(text)


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for each in value.values():
                yield from _leaves(each)
        case list():
            for each in value:
                yield from _leaves(each)
        case str():
            yield value
        case int() | float() if not isinstance(value, bool):
            yield str(value)


def _sentences(text: str) -> Iterator[str]:
    return (each for each in _BORDER.split(text) if each.strip())


def _content(text: str) -> Iterator[str]:
    """The terms that say something."""
    for match in _APART.finditer(unicodedata.normalize("NFKC", text)):
        yield "".join(filter(str.isdecimal, match[0]))
    for term in terms(text):
        if len(term) < 2 or term in STOP_WORDS or term in _COURTESIES:
            continue
        if _UNSPACED.search(term) and not _FUNCTION_CHARACTERS.isdisjoint(term):
            continue
        yield term


def _pairs(said: list[str]) -> Iterator[tuple[str, str]]:
    """Words in a row; characters of scripts without spaces are pairs as they are."""
    for first, second in pairwise(said):
        if not (_UNSPACED.search(first) or _UNSPACED.search(second)) and first != second:
            yield first, second


def _is_number(term: str) -> bool:
    digits = "".join(filter(str.isdecimal, term))
    is_year = len(digits) == 4 and int(digits) in _YEARS
    is_round = len(digits) == _LEAST_DIGITS and digits.endswith("0")
    return len(digits) >= _LEAST_DIGITS and not is_year and not is_round


FindSegments = Callable[[Iterable[str]], Iterable[Segment]]
"""Gives an owner's segments that hold all of some terms; not more than a few dozen."""


class SaidElsewhere:
    """The words of a person's that stay, and those of models and tools that have seen nothing."""

    def __init__(
        self,
        find: FindSegments,
        active: Iterable[RunLoopState],
        *,
        is_gone: Callable[[Ref], bool],
        have_seen: Container[str],
        traits: Traits,
    ) -> None:
        """Learn where to look.

        Args:
            find: looks in long-term memory.
            active: run loops of which that may not know everything yet.
            is_gone: whether an iteration goes.
            have_seen: run loops whose models have seen some of the words.
            traits: of all that goes: who repeats a sentence of it says nothing of their own.
        """
        self._find = find
        self._active = list(active)
        self._is_gone = is_gone
        self._have_seen = have_seen
        self._sentences = traits.sentences
        self.is_common = cache(self._is_common)
        """See `recognition.IsCommon`. Blocks."""

    def _is_common(self, *words: str) -> bool:
        traits = Traits(words=frozenset(words))
        return any(
            not self._is_repeated(text)
            and (
                has_pair(text, *words)
                if len(words) == 2
                else bool(traits.words & Traits.of([text]).words)
            )
            for text in self._texts(words)
        )

    def _texts(self, words: Iterable[str]) -> Iterator[str]:
        for piece in self._find(words):
            anchor = piece.anchor
            by_person = anchor.segment_type == "user_message"
            if (by_person or anchor.run_loop_id not in self._have_seen) and not self._is_gone(
                anchor.ref[:2]
            ):
                yield piece.content
        for state in self._active:
            for index, iteration in enumerate(state.iterations):
                if iteration.user_message and not self._is_gone((state.id, index)):
                    yield iteration.user_message
            yield from (each.message.text for each in state.unseen)

    def _is_repeated(self, text: str) -> bool:
        line = folded(text)
        return any(stands_in(sentence, line) for sentence in self._sentences)
