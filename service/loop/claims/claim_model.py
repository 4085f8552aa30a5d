"""Whether a sentence of an answer claims a deed: a linear model over its words.

What tells claims from what looks like them are words and their order: in English pairs and triples
of words, and of the forms that stay when the matter is left out; in Chinese of characters. Each has
a weight (logistic regression, most weights 0 by an L1 prior). `claim_model.json` holds what
``research.fit_claims`` has fitted to ``data/claims``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import Literal

from service.domain.errors import ConfigurationError
from service.loop.claims.deeds import DEEDS

FORM = 1
"""The form of the file."""

Language = Literal["en", "zh"]
_LONGEST = 600
"""Characters of a sentence that are read."""
_ENGLISH_TOKEN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?|\d+|[^\s\w]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_SPACES = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        i i've i'd i'll i'm we we've we'll you you've you'd you'll your my our he she they
        them it it's its he's she's they've that's that this these those the a an is are was
        were be been being has have had having do does did done can could will would should
        shall may might must not no never haven't hasn't wasn't weren't isn't aren't didn't
        don't doesn't couldn't can't won't if once when unless until before after while so
        because and or but to for with by from in on at of as into under all just now already
        also then successfully ok okay sure great yes who which what how let me us him her
        there here need needs want ready still yet last week month year yesterday ago today
        tonight tomorrow
        """,
    )
)
_DEED = re.compile(rf"(?:{'|'.join(deed.participles for deed in DEEDS)})\Z", re.IGNORECASE)
_OF_INTEREST = "已了好我帮给把被没要吗"
"""Characters whose presence counts wherever they stand."""


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Of one language."""

    weights: Mapping[str, float]
    """By feature; others weigh nothing."""
    bias: float

    def probability(self, sentence: str, language: Language) -> float:
        """That a sentence claims a deed."""
        held = set(features(sentence, language)) & self.weights.keys()
        logit = self.bias + math.fsum(self.weights[feature] for feature in held)
        return 1 / (1 + math.exp(-max(-500.0, min(500.0, logit))))


def language_of(text: str) -> Language:
    """By whether any Chinese character stands in it."""
    return "zh" if _HAN.search(text) else "en"


def features(sentence: str, language: Language) -> Iterator[str]:
    """What the model sees of a sentence.

    >>> sorted(features("Sent!", "en"))[:4]
    ['1:!', '1:$', '1:^', '1:sent']
    """
    sentence = sentence[:_LONGEST]
    if language == "en":
        written = _ENGLISH_TOKEN.findall(sentence)
        tokens = ["^", *("0" if t.isdigit() else t.lower() for t in written), "$"]
        joint = " "
        yield from _sequences("form", _forms(written), " ", (2, 3, 4))
        yield from (f"after:{one}|{other[-2:]}" for one, other in pairwise(tokens))
    else:
        tokens = list("^" + _DIGITS.sub("0", _SPACES.sub("", sentence.lower())) + "$")
        joint = ""
        yield from (f"has:{each}" for each in _OF_INTEREST if each in sentence)
    yield f"begin:{joint.join(tokens[:3])}"
    yield f"end:{joint.join(tokens[-3:])}"
    yield from _sequences("", tokens, joint, (1, 2, 3))


def _sequences(
    name: str, tokens: Sequence[str], joint: str, orders: Sequence[int]
) -> Iterator[str]:
    for order in orders:
        for start in range(len(tokens) - order + 1):
            yield f"{name}{order}:{joint.join(tokens[start : start + order])}"


def _forms(written: Sequence[str]) -> list[str]:
    """What stays of an English sentence when its matter is left out: function words, what kind of
    word the others are, each row of equal ones once. So a verb counts that no example has.

    >>> _forms(["I've", "emailed", "Dr", "Hu", "the", "old", "lab", "results"])
    ['^', "i've", 'DEED', 'Name', 'the', 'word', '$']
    """
    forms = ["^"]
    for word in written:
        form = _form(word, is_first=len(forms) == 1)
        if form not in ("word", "Name") or form != forms[-1]:
            forms.append(form)
    return [*forms, "$"]


def _form(word: str, *, is_first: bool) -> str:
    lower = word.lower()
    if _DEED.match(lower):
        return "DEED"
    if lower in _FUNCTION_WORDS or not word[0].isalnum():
        return lower
    if word.isdigit():
        return "0"
    if lower.endswith(("ed", "ing")):
        return f"-{'ed' if lower.endswith('ed') else 'ing'}"
    return "Name" if word[0].isupper() and not is_first else "word"


def claim_probability(sentence: str) -> float:
    """That a sentence claims a deed of its speaker's; what is quoted or code is not in it."""
    language = language_of(sentence)
    return shipped()[language].probability(sentence, language)


@lru_cache(maxsize=1)
def shipped() -> Mapping[Language, LinearModel]:
    """The models that come with the package, by language.

    Raises:
        ConfigurationError: the file is of another form.
    """
    file = resources.files(__package__ or __name__).joinpath("claim_model.json")
    written = json.loads(file.read_text("utf-8"))
    if written.get("form") != FORM:
        raise ConfigurationError(
            "The model that tells claims does not fit this version.",
            advice="Install the package again, or fit it in a checkout:"
            " `python -m research.fit_claims`.",
        )
    languages: tuple[Language, ...] = ("en", "zh")
    return {each: LinearModel(**written[each]) for each in languages}
