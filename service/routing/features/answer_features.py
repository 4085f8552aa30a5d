"""What speaks for a message's being said to a question that stands open: its answer, or about it.

A question asks for something of a kind (a number, a time, a name, a yes or a no), and an answer is
mostly short, of that kind, and no request or question of its own. What is about the topic without
answering is near to it in meaning, or shares its words. English and Chinese are read; of other
languages only meaning, length and shared words tell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from service.memory.ledger.terms import STOP_WORDS
from service.routing.choices.option_choice import chosen
from service.routing.features.answer_kinds import ASKED_FOR, OF_KIND
from service.routing.text.request_intent import (
    asks_of_terms,
    asks_something,
    looks_up,
    wants_something,
)
from service.routing.text.text_reading import Asked, Candidate, Vector, read

EXPECTING_FEATURES = (
    "opens",
    "cos_question",
    "cos_goal",
    "cos_options",
    "cos_lead",
    "shares_words",
    "shares_han",
    "fits_kind",
    "fits_short",
    "misfits_kind",
    "names_option",
    "length",
    "is_fragment",
    "is_question",
    "question_shares",
    "question_of_terms",
    "looks_up",
    "is_request",
    "request_for_words",
    "answers",
    "declines",
    "points_back",
    "approve",
    "approve_question",
    "approve_decides",
    "select",
    "yes_or_no",
    "han",
    "han_question",
    "other_script",
)
_SHORT = 6.0
"""Words: what is said in no more may be a piece of a sentence."""
_WORDS_A_HAN = 0.6
"""How many words a Chinese character is, about."""
_HAN = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[^\W_\u3400-\u9fff]+(?:['.:@/-][^\W_\u3400-\u9fff]+)*")
_COMMON_HAN = frozenset(
    "的了吗呢吧是在有我你他她它您们个一不这那要就也都和与给把请帮想去来到会能可以什么怎几哪谁"
)
_WHEN = re.compile(
    r"[今明后昨]天|[今明]早|[今明昨]晚|早上|上午|中午|下午|晚上"
    r"|\b(?:today|tomorrow|yesterday|tonight|morning|afternoon|evening|night)\b",
    re.IGNORECASE,
)
"""Times that topics of all kinds have in common: to share them says nothing."""
_NO_POINTER = re.compile(
    r"附近|周边|旁边|该|\b(?:day|time|date|month|year) is it\b"
    r"|\b(?:is|has) it (?:[a-z]+ing\b|stopped)",
    re.IGNORECASE,
)
"""Places near the person, and an "it" that stands for nothing: by neither is pointed back."""
_USUAL_COSINE = 0.8
"""About where cosines of multilingual-e5-small lie; what is learned needs them near 0."""
_COSINE_SCALE = 20.0


_TO_BE_SAID = re.compile(
    r"(?:就|请|帮我)?(?:说|问|告诉|(?:写|填|用)(?!一?[个首封份篇点])|让他|提到)"
    r"|(?:just )?(?:say|tell (?:him|her|them)|ask (?:him|her|them)|write that|that|use|put) "
    r"|(?:how|why|what|when|where) (?!(?:do|does|did|is|are|was|were|can|could|should|would|will"
    r"|has|have|to|much|many|about|long|far|old|tall|big|often|else)\b)\w+ \w+",
    re.IGNORECASE,
)
"""What is to be said or written may be a question or a request, and is an answer all the same."""
_DECLINES = re.compile(
    r"\b(?:never ?mind|forget (?:it|the|about)|cancel|skip|stop|drop it|leave (?:it|that|the)"
    r"|rather not|don'?t|won'?t|not now|no way|none|nothing|neither|hold on|changed my mind"
    r"|can'?t (?:think|come|say)|without|no thanks)\b"
    r"|算了|取消|不[用要想了行必]|别|先不|都不|不\w{0,3}了|停|不方便|没有?了",
    re.IGNORECASE,
)
_DECIDES = re.compile(
    r"^\W*(?:yes|yeah|yep|no|nope|ok(?:ay)?|sure|go|do it|don'?t|stop|wait|hold|not|only|but|first"
    r"|instead|change|make it|use|take|leave|keep|fine|allow|deny|proceed|cancel|skip)\b"
    r"|\b(?:instead|first|go ahead|before you)\b"
    r"|^(?:好|可以|行|不|别|等|先|只|换|改|停|同意|是|对|运行|允许|拒绝)|之前|以前的|再",
    re.IGNORECASE,
)


def expecting(
    text: str,
    vector: Vector | None,
    candidate: Candidate,
    others: Sequence[Candidate],
    *,
    opens: float,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """One number for each of `EXPECTING_FEATURES`.

    Args:
        text: the message.
        vector: of the message; without it nearness counts nothing.
        candidate: a loop that waits; `asked` says for what.
        others: all other candidates.
        opens: how much the message is like those that open a topic; NaN: not known.
    """
    asked = candidate.asked
    if asked is None:
        raise ValueError(f"run loop {candidate.id} does not wait")
    words = " ".join(text.split()).replace("’", "'")
    message = read(text)
    shape = message.shape
    kinds = _kinds(asked)
    said = not {"words", "name"}.isdisjoint(kinds) and _TO_BE_SAID.match(words) is not None
    asks = asks_something(words) and not said
    approve = asked.kind == "approve"
    decides = approve and _DECIDES.search(words) is not None
    wants = wants_something(words) and not (asks or said or decides)
    length = _length(words)
    fragment = not (asks or wants) and length <= _SHORT
    fits = not (asks or wants) and any(OF_KIND[kind].search(words) for kind in kinds)
    near, goal, options, lead = _nearness(vector, candidate, others, asked)
    shares = _shared(read(_WHEN.sub(" ", words)).terms, candidate, asked)
    shares_han = _shared_han(words, candidate, asked)
    han = _HAN.search(words) is not None
    declines = not asks and _DECLINES.search(words) is not None
    return np.array(
        [
            0.0 if math.isnan(opens) else float(np.clip(opens, -3, 3)),
            near,
            goal,
            options,
            lead,
            shares,
            shares_han,
            float(fits),
            float(fits and fragment),
            float(bool(kinds) and not fits),
            float(bool(asked.options) and bool(_named(words, asked))),
            min(math.log1p(length) / 2, 1.5),
            float(fragment),
            float(asks),
            max(shares, shares_han) if asks else 0.0,
            float(asks and asks_of_terms(words)),
            float(looks_up(words) and shares == 0 and not (fits and han)),
            float(wants),
            float(wants and "words" in kinds),
            float(shape.answers),
            float(declines),
            min(max(shape.points_back - len(_NO_POINTER.findall(words)), 0), 2) / 2,
            float(approve),
            float(approve and asks),
            float(decides),
            float(asked.kind == "select"),
            float(
                "yes_or_no" in kinds and not asks and OF_KIND["yes_or_no"].search(words) is not None
            ),
            float(han),
            float(han and asks),
            float(han is not (_HAN.search(asked.question.text) is not None)),
        ]
    )


def _length(words: str) -> float:
    """In words, of which Chinese ones are counted by their characters."""
    return len(_LATIN_WORD.findall(words)) + _WORDS_A_HAN * len(_HAN.findall(words))


def _shared_han(words: str, candidate: Candidate, asked: Asked) -> float:
    """The share of the message's Chinese characters that stand in what was said."""
    content = frozenset(_HAN.findall(_WHEN.sub(" ", words))) - _COMMON_HAN
    said = "".join(
        (asked.question.text, candidate.goal.text, *(each.text for each in asked.options))
    )
    return len(content & frozenset(said)) / len(content) if content else 0.0


def _kinds(asked: Asked) -> tuple[str, ...]:
    """What is asked for."""
    if asked.kind != "prompt":
        return ()
    question = asked.question.text.strip()
    return tuple(kind for kind, form in ASKED_FOR.items() if form.search(question))


def _named(words: str, asked: Asked) -> bool:
    options = [option.text for option in asked.options]
    return bool(chosen(words[:400], options, multiple=asked.multiple))


def _nearness(
    vector: Vector | None, candidate: Candidate, others: Sequence[Candidate], asked: Asked
) -> tuple[float, float, float, float]:
    """To the question, the goal, the nearest option; and the lead over all other topics."""
    if vector is None:
        return 0.0, 0.0, 0.0, 0.0
    question = _cosine(vector, asked.question.vector)
    goal = _cosine(vector, candidate.goal.vector)
    options = max((_cosine(vector, each.vector) for each in asked.options), default=_USUAL_COSINE)
    own = max(question, goal, options if asked.options else -1.0)
    rest = max(
        (
            _cosine(vector, turn.vector)
            for other in others
            for turn in (other.goal, *other.turns)
            if turn.vector is not None
        ),
        default=_USUAL_COSINE,
    )
    return (
        (question - _USUAL_COSINE) * _COSINE_SCALE,
        (goal - _USUAL_COSINE) * _COSINE_SCALE,
        (options - _USUAL_COSINE) * _COSINE_SCALE,
        (own - rest) * _COSINE_SCALE,
    )


def _cosine(one: Vector, other: Vector | None) -> float:
    return _USUAL_COSINE if other is None else float(one @ other)


def _shared(terms: frozenset[str], candidate: Candidate, asked: Asked) -> float:
    """The share of the message's words that stand in the question, the options or the goal."""
    said = (asked.question.text, candidate.goal.text, *(each.text for each in asked.options))
    said_terms = frozenset[str]().union(*(read(text).terms for text in said))
    content = {term for term in terms if term not in STOP_WORDS}
    return len(content & said_terms) / len(content) if content else 0.0
