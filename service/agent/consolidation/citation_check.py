"""Whether the passages that a sentence cites can bear it, told without a model.

A check of form, not of truth: it sees to it that every citation is one of the passages that were
given, that no number and no name stands in the sentence which the cited passages lack, and that the
two have some word in common. What passes can still be a wrong reading; its anchors show.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from service.agent.consolidation.note_prompts import (
    ProposedNote,
    ProposedSentence,
    Question,
    is_the_user,
)
from service.memory.ledger.notes import NewSentence, NewSentences, UnreadSegment
from service.memory.ledger.terms import STOP_WORDS, content_terms, terms, written_numbers

Reason = Literal["subject", "form", "citation", "number", "name", "words", "known"]
"""What is wrong: the subject stands in no passage; the sentence is empty or too long; it cites
nothing, or what was not given; a number or a name that the cited passages lack; no word in common;
a word that comes from a known note alone.
"""

_MOST_CHARACTERS = 500
_MOST_SUBJECT_CHARACTERS = 80
_LATIN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_HAN = re.compile(r"[\u3400-\u9fff]")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)


def checked(
    proposed: Iterable[ProposedNote], question: Question
) -> tuple[list[NewSentences], list[Reason]]:
    """The sentences that can be kept, and why each of the others cannot."""
    kept: list[NewSentences] = []
    dropped: list[Reason] = []
    everything = _terms_of(question.passages.values())
    names = frozenset(_names_within(question.passages.values()))
    for note in proposed:
        subject = " ".join(unicodedata.normalize("NFC", note.subject).split())
        if not _is_subject(subject, everything):
            dropped += ["subject"] * max(len(note.sentences), 1)
            continue
        sentences = []
        for each in note.sentences:
            result = _sentence(each, question, subject=subject, names=names)
            if isinstance(result, NewSentence):
                sentences.append(result)
            else:
                dropped.append(result)
        if sentences:
            kept.append(NewSentences(note.kind, subject, tuple(sentences)))
    return kept, dropped


def _is_subject(subject: str, everything: frozenset[str]) -> bool:
    """Whether a subject may be: one whose words the passages hold, or the user."""
    if not 0 < len(subject) <= _MOST_SUBJECT_CHARACTERS or not _is_encodable(subject):
        return False
    return any(terms(subject)) and (is_the_user(subject) or content_terms(subject) <= everything)


def _sentence(
    proposed: ProposedSentence,
    question: Question,
    *,
    subject: str,
    names: frozenset[str],
) -> NewSentence | Reason:
    text = " ".join(unicodedata.normalize("NFC", proposed.text).split())
    if not 0 < len(text) <= _MOST_CHARACTERS or not _is_encodable(text):
        return "form"
    numbers = dict.fromkeys(proposed.passages)
    if not numbers or not numbers.keys() <= question.passages.keys():
        return "citation"
    cited = [question.passages[number] for number in numbers]
    if not written_numbers(text) <= _numbers_of(cited):
        return "number"
    there = _terms_of(cited)
    if not _has_no_strange_name(text, there | set(terms(subject)) | _dates(cited), names):
        return "name"
    if not content_terms(text) & there:
        return "words"
    words = content_terms(text)
    if not is_the_user(subject):
        words |= content_terms(subject)
    leaning = _leaning(words - there, question, near=proposed.passages[0])
    if leaning is None:
        return "known"
    replaces = tuple(
        question.sentences[each] for each in proposed.replaces if each in question.sentences
    )
    return NewSentence(text, tuple(cited), leaning, replaces)


def _leaning(
    missing: set[str], question: Question, *, near: int
) -> tuple[UnreadSegment, ...] | None:
    """Of words that the cited passages lack: the passages that they seem to come from, so that the
    sentence falls with these too; None where one comes from a known note, and so from words that
    are not at hand. Words that stand nowhere are the model's own.
    """
    sources: dict[int, UnreadSegment] = {}
    known_terms = content_terms("\n".join((*question.sentences.values(), *question.subjects)))
    for term in sorted(missing):
        holding = [
            number
            for number, each in question.passages.items()
            if term in set(terms(each.segment.content))
        ]
        if holding:
            nearest = min(holding, key=lambda number: (abs(number - near), number))
            sources[nearest] = question.passages[nearest]
        elif term in known_terms:
            return None
    return tuple(sources.values())


def _numbers_of(cited: Sequence[UnreadSegment]) -> frozenset[str]:
    numbers: set[str] = set()
    for each in cited:
        at = each.segment.anchor.timestamp
        numbers |= written_numbers(each.segment.content) | {
            str(at.year),
            str(at.month),
            str(at.day),
        }
    return frozenset(numbers)


def _dates(cited: Sequence[UnreadSegment]) -> frozenset[str]:
    months = " ".join(_MONTHS[each.segment.anchor.timestamp.month - 1] for each in cited)
    return frozenset(terms(months))


def _terms_of(passages: Iterable[UnreadSegment]) -> frozenset[str]:
    return frozenset(term for each in passages for term in terms(each.segment.content))


def _has_no_strange_name(text: str, known_terms: frozenset[str], names: frozenset[str]) -> bool:
    """Whether all that is written as a name is known: words with capitals.

    The first word of a sentence has one anyway: it counts only where it is a name in some passage.
    """
    chinese = bool(_HAN.search(text))
    for word, is_first in _capitalised(text):
        parts = set(terms(word))
        if parts <= known_terms or parts <= STOP_WORDS:
            continue
        if is_first and not chinese and not parts & names:
            continue
        return False
    return True


def _names_within(passages: Iterable[UnreadSegment]) -> Iterator[str]:
    for each in passages:
        for word, is_first in _capitalised(each.segment.content):
            if not is_first:
                yield from set(terms(word)) - STOP_WORDS


def _capitalised(text: str) -> Iterator[tuple[str, bool]]:
    """The words with a capital letter, and whether they begin a sentence."""
    for match in _LATIN.finditer(text):
        word = match[0]
        if word == word.lower() or word in ("I", "I'm", "I've", "I'd", "I'll"):
            continue
        before = text[: match.start()].rstrip(" \t\"'“”‘’(（「*-")
        yield word, not before or before[-1] in ".!?。！？:：;；\n…"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def counted(reasons: Iterable[Reason]) -> Mapping[str, int]:
    """How often each reason came up."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return counts
