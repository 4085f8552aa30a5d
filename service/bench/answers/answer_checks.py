"""Whether an answer passes. Loose on purpose: a wrong answer is caught, a style is not.

Nothing but regular expressions and counts judges, so that a verdict can be looked up and is the
same each time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise

from service.bench.answers.answer_dataset import Check, Expected, Language, with_days

_HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNIT = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+(?:['.][^\W_{_HAN}]+)*")
_CHINESE = re.compile(rf"[{_HAN}]")
_GOES_ROUND = re.compile(r"([^\W\d_].{1,79}?)\1{4}", re.DOTALL)
"""Caught in a phrase: five times the same, one after another."""
_I = {"i", "i'm", "i've", "me", "my", "mine", "we", "our", "us", "我"}
_YOU = {"you", "you're", "you've", "your", "yours", "你", "您"}
_FEWEST_FOR_ECHO = 3
_ECHO_SHARE = 0.75
_ECHO_COVERS = 0.5
_WORDS_ABOUT_IT = 4
"""As in "You said"."""
_ENGLISH_AT_MOST = 0.15
"""Share of Chinese characters among the words of an English answer: it can quote some."""
_CHINESE_AT_LEAST = 0.5
"""Share among those of a Chinese one: names and formulas can be in Latin letters."""

_CANNOT = r"(?:can(?:'t|not| not)|am (?:unable|not able) to|won't be able to)"
_REFUSALS = (
    rf"\b(?:sorry|unfortunately|apologi[sz]e)\b[^.!?\n]{{0,40}}\b{_CANNOT}\s+(?:assist|help|provide"
    r"|fulfil|answer|write|translate|create|generate|complete|do (?:that|this)|comply|process)",
    rf"\bI {_CANNOT} (?:assist|help you|fulfil|comply)\b",
    r"\bas an? (?:AI|artificial intelligence)\b[^.!?\n]{0,60}\b(?:can(?:'t|not)|unable|don't)",
    r"作为(?:一个|一名|一款)?(?:AI|人工智能)[^。！？\n]{0,40}(?:无法|不能|没有|不具备)",
    r"(?:我|抱歉|对不起|很遗憾)[^。！？\n]{0,12}(?:无法|不能)(?:为您|为你|给您|给你|帮您|帮你|直接)?"
    r"(?:回答|提供|帮助|协助|完成|满足|翻译|写|创作|执行|处理|进行)",
)
_REFUSAL = re.compile("|".join(_REFUSALS), re.IGNORECASE)


def faults(
    answer: str,
    check: Check,
    *,
    said: str,
    language: Language,
    tools: Sequence[str] | None,
    today: date,
) -> list[str]:
    """What is wrong with an answer, each in words; none: it passes.

    Args:
        answer: all that was said to the message.
        check: what it must be like.
        said: the message.
        language: the conversation's.
        tools: the names of the tools that were called; None: there were none to call, and nothing
            is asked of them.
        today: what patterns that speak of today mean.
    """
    if not answer.strip():
        return ["nothing was said"]
    text = answer.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [
        *_of_patterns(text, check, today),
        *_of_echo(text, check, said, today),
        *_of_form(text, check, check.language or language),
        *(_of_tools(check, tools) if tools is not None else ()),
    ]


def units(text: str) -> list[str]:
    """The words of a text, in small letters; each Chinese character is one.

    >>> units("Don't eat 3.5 of 虾仁!")
    ["don't", 'eat', '3.5', 'of', '虾', '仁']
    """
    return [each.lower() for each in _UNIT.findall(text)]


def is_echo(answer: str, said: str) -> bool:
    """Whether an answer is little else than the message again.

    It is the whole message with a few words about it; or more than three quarters of its words are
    the message's, and it holds half of the message. Of Chinese, where a character is shared by many
    words, pairs of neighbours are compared. What says "you" in the place of the message's "I" is
    said to the person, who was understood.

    >>> is_echo("I am allergic to nuts.", "I am allergic to nuts, please remember.")
    True
    >>> is_echo("你不可以吃虾。", "我可以吃虾吗？"), is_echo("我可以吃虾。", "我可以吃虾吗？")
    (False, True)
    """
    answered, asked = _pieces(answer), _pieces(said)
    common = sum((answered & asked).values())
    if answered.total() < _FEWEST_FOR_ECHO or _is_turned(answer, said):
        return False
    if _is_within(units(said), units(answer)):
        return True
    return common / answered.total() > _ECHO_SHARE and common >= _ECHO_COVERS * asked.total()


def is_refusal(answer: str) -> bool:
    """Whether an answer says that the model cannot do what it is asked to.

    >>> is_refusal("I'm sorry, but I can't assist with that."), is_refusal("Sorry, I don't know.")
    (True, False)
    """
    return _REFUSAL.search(answer) is not None


def is_in(language: Language, answer: str) -> bool:
    """Whether an answer is in a language. One without letters, such as a number, is in each.

    >>> is_in("zh", "昆明"), is_in("en", "昆明"), is_in("zh", "42")
    (True, False, True)
    """
    words = [each for each in units(answer) if not each[0].isdigit()]
    if not words:
        return True
    share = sum(bool(_CHINESE.match(each)) for each in words) / len(words)
    return share >= _CHINESE_AT_LEAST if language == "zh" else share <= _ENGLISH_AT_MOST


def _of_patterns(text: str, check: Check, today: date) -> Iterator[str]:
    if check.any and not any(_found(each, text, today) for each in check.any):
        yield f"none of {' , '.join(check.any)} is in it"
    for each in check.all:
        if not _found(each, text, today):
            yield f"{each} is not in it"
    for each in check.none:
        if match := _found(each, text, today):
            yield f"{match[0]!r} is in it"


def _found(pattern: str, text: str, today: date) -> re.Match[str] | None:
    return re.search(with_days(pattern, today), text, re.IGNORECASE | re.DOTALL)


def _of_echo(text: str, check: Check, said: str, today: date) -> Iterator[str]:
    """An answer in a whole sentence has the question's words, and what was asked for besides."""
    asked = (*check.any, *check.all)
    is_new = any(_found(each, text, today) and not _found(each, said, today) for each in asked)
    if not check.echo and not is_new and is_echo(text, said):
        yield "it is the message again"


def _of_form(text: str, check: Check, language: Expected) -> Iterator[str]:
    if not check.refusal and is_refusal(text):
        yield "it is a refusal"
    if match := _GOES_ROUND.search(text):
        yield f"it goes round in {match[1][:20]!r}"
    if language != "any" and not is_in(language, text):
        yield f"it is not in the language {language}"
    words = len(units(text))
    if words < check.min_words:
        yield f"it has {words} words, fewer than {check.min_words}"
    if check.max_words is not None and words > check.max_words:
        yield f"it has {words} words, more than {check.max_words}"


def _of_tools(check: Check, tools: Sequence[str]) -> Iterator[str]:
    if not check.is_about_tools:
        return
    called = ", ".join(tools)
    if check.tool is None and tools:
        yield f"{called} was called"
    elif check.tool is not None and check.tool not in tools:
        yield f"{check.tool} was not called" + (f", but {called}" if called else "")


def _is_within(said: Sequence[str], answer: Sequence[str]) -> bool:
    more = len(answer) - len(said)
    if len(said) < _FEWEST_FOR_ECHO or not 0 <= more <= _WORDS_ABOUT_IT:
        return False
    return any(answer[start : start + len(said)] == said for start in range(more + 1))


def _is_turned(answer: str, said: str) -> bool:
    answered, asked = {*units(answer)}, {*units(said)}
    return bool(asked & _I and answered & _YOU) and not answered & asked & _I


def _pieces(text: str) -> Counter[str]:
    words = units(text)
    pieces = [each for each in words if not _CHINESE.match(each)]
    pairs = pairwise(words)
    pieces += [a + b for a, b in pairs if _CHINESE.match(a) and _CHINESE.match(b)]
    return Counter(pieces)
