"""Which of what is remembered seems to answer a question, sure enough to be shown to a person.

A small model paraphrases wrongly now and then: the person's own words beside its sentence show
that. Relevance alone tells only that something is about the topic ("How old is Momo?" finds
"Momo eats salmon"), so the words must also name what the question names, and hold a number where
one is asked for. Rather nothing is shown than something that does not answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from service.domain.anchors import AnchorRef, MemoryHit
from service.loop.recall.topic_shift import content_words
from service.routing.text.request_intent import asks_something, is_request
from service.tuning import (
    ANSWERS_LEAST_RELEVANCE,
    ANSWERS_LEAST_SHARED,
)

_EXPLAINS = re.compile(
    r"\W*(?:why|how (?:do|does|did|can|could|should|would|to|is|are)|explain)\b"
    r"|为什么|为何|为啥|怎么|怎样|如何",
    re.IGNORECASE,
)
"""Asks for reasons or ways: what somebody has told is seldom the answer."""
_COUNTS = re.compile(
    r"\bhow (?:much|many|old|long|far|tall|big|high|heavy|hot|fast)\b|多少|多[大久长高远重]|几"
    r"|\b(?:when|what time|which day|what day)\b|什么时候|何时|哪[天年]",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|[零一二两三四五六七八九十百千万半]"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|twenty|thirty"
    r"|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|first|second|third"
    r"|today|tomorrow|noon|midnight|morning|evening|spring|summer|autumn|winter"
    r"|\w+day|january|february|march|april|may|june|july|august|september|october|november"
    r"|december)\b|[早晚中]午|[早晚]上|明天|后天|春|夏|秋|冬|周末|月底",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?<![.!?。！？]\s)(?<=[\w,]\s)[A-Z]\w+|[A-Za-z]*\d[\w.-]*|(?<=[\u3400-\u9fff])[A-Za-z]\w+"
)
_PERSONAL = frozenset(("i", "i'm", "i've"))


def answering(words: str, hits: Iterable[MemoryHit]) -> AnchorRef | None:
    """The hit that seems to answer what a person says now; None where they ask nothing.

    Args:
        words: what they say.
        hits: what memory has found for it, with their scores.
    """
    if not asks_something(words) or _EXPLAINS.search(words):
        return None
    sure = [hit for hit in hits if _answers(words, hit)]
    nearest = max(sure, key=lambda hit: (hit.scores or {}).get("cosine", -1.0), default=None)
    return nearest.anchor.ref if nearest is not None else None


def _answers(words: str, hit: MemoryHit) -> bool:
    content = hit.content
    if hit.anchor.segment_type != "user_message" or hit.relevance < ANSWERS_LEAST_RELEVANCE:
        return False
    if asks_something(content) or is_request(content):
        return False
    asked = content_words(words)
    shared = asked & content_words(content)
    if not shared or len(shared) < ANSWERS_LEAST_SHARED * len(asked):
        return False
    if _COUNTS.search(words) and not _NUMBER.search(content):
        return False
    named = {each.casefold() for each in _NAMED.findall(words)} - _PERSONAL
    return all(each in content.casefold() for each in named)
