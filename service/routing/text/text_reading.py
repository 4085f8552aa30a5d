"""What is read out of a text once: its words, what follows what in it, its shape, its manner."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.domain.text import NO_SCRIPT, main_script
from service.memory.ledger.terms import STOP_WORDS, terms
from service.routing.text import word_pieces
from service.routing.text.message_shape import Shape, shape

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
    signs = [float(sign.search(words) is not None) for sign in _SIGNS]
    return (*signs, min(len(words) / _USUAL_LENGTH, _MOST_LENGTHS))


Vector = NDArray[np.float32]

MOST_TURNS = 12
"""How many of a loop's newest turns count, besides its goal."""
READ_CHARACTERS = 2000
"""How much of a text is read for its words."""
LOOK_FEATURES = (
    "asks",
    "asks_yes_or_no",
    "length",
    "is_question",
    "requests",
    "follows_up",
    "answers",
    "bids_farewell",
    "dismisses",
    "greets",
    "points_back",
)
_CACHED = 4096
_CACHED_LOOPS = 512
_BEGINNING = re.compile(r"[\u4e00-\u9fff]{1,2}|\w+|\W")
_HAN = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Turn:
    """Something said in a loop. `at` is in seconds (POSIX); `vector` has length 1."""

    text: str
    role: Literal["user", "assistant"]
    at: float
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a loop asks a person, and waits to hear."""

    kind: Literal["approve", "prompt", "select"]
    question: Turn
    options: tuple[Turn, ...] = ()
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A loop that the message may belong to."""

    id: str
    goal: Turn
    """What opened it."""
    turns: Sequence[Turn]
    """Oldest first; only the newest `MOST_TURNS` are read."""
    turn_count: int
    """How many turns it has had in all."""
    awaiting: bool = False
    """Whether it waits for a person's answer: as if its last turn asked."""
    asked: Asked | None = None
    """What it waits for; None also where it asks where its own message belongs."""


class Manner(NamedTuple):
    """How a text begins and ends."""

    beginning: str
    """Its first word, or two Chinese characters."""
    end: str
    """Its last sign; of Chinese the last two characters."""
    has_capital: bool
    """Whether it begins with one."""
    script: str

    def may_be_compared(self, other: Manner) -> bool:
        """Whether both are in one script, as far as they have any."""
        return self.script == other.script or NO_SCRIPT in (self.script, other.script)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text, read."""

    terms: frozenset[str]
    phrases: frozenset[str]
    """Two words that say something, one after the other."""
    lower: str
    shape: Shape
    manner: Manner
    signs: tuple[float, ...]
    """Of the hand that wrote it."""
    look: tuple[float, ...]
    """Its shape in numbers, as in `LOOK_FEATURES`."""


def read(text: str) -> Reading:
    """Read a text; of a very long one the beginning, and the end for what it asks."""
    return _read(_Read.of(text))


class _Read(NamedTuple):
    """What of a text is read, and kept with what was found in it: not a whole long text."""

    beginning: str
    end: str
    """Of a text that is read in part only; else empty."""

    @classmethod
    def of(cls, text: str) -> _Read:
        is_whole = len(text) <= READ_CHARACTERS
        return cls(text[:READ_CHARACTERS], "" if is_whole else text[-READ_CHARACTERS // 2 :])


@lru_cache(maxsize=_CACHED)
def _read(text: _Read) -> Reading:
    beginning = text.beginning
    all_terms = list(terms(beginning))
    content = [term for term in all_terms if len(term) > 1 and term not in STOP_WORDS]
    text_shape = shape(_ends(text))
    return Reading(
        terms=frozenset(term for term in all_terms if len(term) > 1),
        phrases=frozenset(f"{one} {next_one}" for one, next_one in pairwise(content)),
        lower=beginning.lower(),
        shape=text_shape,
        manner=_manner(beginning),
        signs=style_signs(beginning),
        look=_look(text_shape),
    )


def clear_cache() -> None:
    """Keep no texts in the process's memory."""
    for each in KEPT:
        each.cache_clear()


def _ends(text: _Read) -> str:
    if not text.end:
        return text.beginning
    return f"{text.beginning[: READ_CHARACTERS // 2]} {text.end}"


def _look(text_shape: Shape) -> tuple[float, ...]:
    return (
        float(text_shape.asks),
        float(text_shape.asks_yes_or_no),
        math.log1p(text_shape.length),
        float(text_shape.is_question),
        float(text_shape.requests),
        float(text_shape.follows_up),
        float(text_shape.answers),
        float(text_shape.bids_farewell),
        float(text_shape.dismisses),
        float(text_shape.greets),
        float(text_shape.points_back),
    )


def _manner(text: str) -> Manner:
    words = text.strip()
    first = _BEGINNING.match(words)
    end = words[-2:]  # Chinese sentences often end in a particle and a sign
    if not _HAN.search(words):
        end = "" if words[-1:].isalnum() else words[-1:]
    beginning = first[0].lower() if first else ""
    return Manner(beginning, end, words[:1].isupper(), main_script(words))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All that several texts hold."""

    words: frozenset[str]
    phrases: frozenset[str]
    codes: frozenset[str]


@lru_cache(maxsize=_CACHED_LOOPS)
def _vocabulary(texts: tuple[_Read, ...]) -> Vocabulary:
    readings = [_read(text) for text in texts]
    nothing = frozenset[str]()
    return Vocabulary(
        words=nothing.union(*(each.terms for each in readings)),
        phrases=nothing.union(*(each.phrases for each in readings)),
        codes=nothing.union(*(each.shape.codes for each in readings)),
    )


@dataclass(frozen=True, slots=True)
class Loop:
    """A candidate, read."""

    candidate: Candidate
    turns: tuple[Turn, ...]
    readings: tuple[Reading, ...]
    goal: Reading
    all: Vocabulary
    by_user: tuple[Reading, ...]
    by_assistant: tuple[Reading, ...]
    said_by_user: frozenset[str]
    user_times: tuple[float, ...]
    """When the person spoke, oldest first; when the goal was said if never since."""

    @classmethod
    def of(cls, candidate: Candidate) -> Loop:
        """Read a candidate's newest turns and its goal."""
        turns = tuple(candidate.turns[-MOST_TURNS:]) or (candidate.goal,)
        readings = tuple(read(turn.text) for turn in turns)
        sides = list(zip(turns, readings, strict=True))
        spoken = tuple(turn.at for turn in turns if turn.role == "user")
        return cls(
            candidate=candidate,
            turns=turns,
            readings=readings,
            goal=read(candidate.goal.text),
            all=_vocabulary(
                (_Read.of(candidate.goal.text), *(_Read.of(each.text) for each in turns))
            ),
            by_user=tuple(reading for turn, reading in sides if turn.role == "user"),
            by_assistant=tuple(reading for turn, reading in sides if turn.role != "user"),
            said_by_user=_vocabulary(
                tuple(_Read.of(turn.text) for turn in turns if turn.role == "user")
            ).words,
            user_times=tuple(sorted(spoken)) or (candidate.goal.at,),
        )


KEPT = (_read, _vocabulary, *word_pieces.KEPT)
"""What keeps words of texts in the process's memory."""
