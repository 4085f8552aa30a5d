"""What counts as a word: the terms that are indexed, and the terms that a query looks for.

Words of scripts that write spaces are folded to lower case, stripped of accents and stemmed as
English. Scripts that write none (Chinese, Japanese, Korean, Thai and their neighbours) are indexed
as overlapping pairs of characters, so that any two characters in a row are found inside a longer
text; the last character of a run stands alone as well, so that every single character begins some
term and a prefix finds it. Full-width forms are the same as narrow ones; traditional and simplified
characters are different ones.

What people look up to the letter is a term of its own beside its parts: addresses, file names and
versions without their punctuation, telephone numbers and dates as their digits, and a number with
the character behind it.

>>> list(terms("Runs, café's 我喜欢"))
['run', 'cafe', '我喜', '喜欢', '欢']
>>> list(terms("5月7日 iPhone15 a.b@c.de"))
['5', '5月', '月', '7', '7日', '日', 'iphone15', 'iphon', '15', 'a', 'b', 'c', 'de', 'abcde']
>>> query_terms('run NEAR "我喜欢" 猫')
['run', 'near', '我喜', '喜欢', '猫*']
>>> match_expression(["run", "猫*"])
'"run" OR "猫"*'
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, pairwise

import snowballstemmer

from service.memory.memory_tuning import QUERY_TERMS

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af"  # Korean
)
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:(?![{_UNSPACED}])(?:[^\W_]|[{_MARKS}]))"
_RUNS = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>{_LETTER}+(?:['’]{_LETTER}+)*)")
_MODEL = re.compile(r"([^\W\d_]{2,})(\d+)")  # iphone15, covid19: people write them apart as well
_JOINED = re.compile(  # addresses, file names, versions, hyphenated words
    rf"(?<![^\W{_UNSPACED}]){_LETTER}++(?:[._@/:+&=?%~#-]++{_LETTER}++)+"
)
_DIGITS = re.compile(r"(?<!\d)\d(?:[\s().-]{0,3}\d){6,14}(?!\d)")  # telephone numbers, dates
_GROUPED = re.compile(r"(?<=\d)[,'’\u00a0\u202f](?=\d{3}(?!\d))")
_ALL_DIGITS = re.compile(r"\d+")
_CHINESE_NUMBER = re.compile(r"[零〇一二三四五六七八九十百千万亿两]{2,}")
_NO_DIGIT = re.compile(r"\D+")
_NO_LETTER = re.compile(r"[\W_]+")

_LONGEST_TERM = 64
_LONGEST_QUERY = 50_000
_ACCENTS = re.compile(r"[\u0300-\u036f]")

_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()


def terms(text: str) -> Iterator[str]:
    """The terms of a text, in order, as they are indexed. None holds a space or a quote."""
    text = _normalised(text)
    for run, unspaced, number in _runs(text):
        if unspaced:
            if number:
                yield number + run[0]
            yield from map("".join, pairwise(run))
            yield run[-1]
        else:
            yield from _of_word(run)
    yield from _wholes(text)


def query_terms(query: str) -> list[str]:
    """The terms that a query looks for, each once; one that ends in ``*`` is the start of terms.

    Of a query that is very long only the beginning counts.
    """
    distinct = dict.fromkeys(_query_terms(_normalised(query[:_LONGEST_QUERY])))
    return list(islice(distinct, QUERY_TERMS))


def match_expression(alternatives: Iterable[str]) -> str | None:
    """The FTS5 expression that finds any of these terms; None when there is none.

    Every term is quoted, so that nothing in it can be syntax.
    """
    quoted = (f'"{term[:-1]}"*' if term.endswith("*") else f'"{term}"' for term in alternatives)
    return " OR ".join(quoted) or None


def _query_terms(text: str) -> Iterator[str]:
    yield from _wholes(text)
    for run, unspaced, number in _runs(text):
        if not unspaced:
            yield from _of_word(run)
            continue
        if number:
            yield number + run[0]
        elif len(run) == 1:
            yield f"{run}*"
        yield from map("".join, pairwise(run))


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _runs(text: str) -> Iterator[tuple[str, bool, str]]:
    """Runs of letters, whether they are of a script without spaces, and the number right before."""
    number, end = "", 0
    for match in _RUNS.finditer(text):
        run, unspaced = match[0], match["unspaced"] is not None
        yield run, unspaced, number if unspaced and match.start() == end else ""
        number, end = run if run.isdigit() and len(run) < _LONGEST_TERM else "", match.end()


def _of_word(word: str) -> Iterator[str]:
    yield _stem(word)
    if (parts := _MODEL.fullmatch(word)) is not None:
        yield from map(_stem, parts.groups())


def _wholes(text: str) -> Iterator[str]:
    """What is looked up to the letter, without its punctuation."""
    for match in _JOINED.finditer(text):
        yield _NO_LETTER.sub("", match[0])[:_LONGEST_TERM]
    for match in _DIGITS.finditer(text):
        joined = _NO_DIGIT.sub("", match[0])
        if joined != match[0]:
            yield joined


def clear_cache() -> None:
    """Keep no words in the process's memory."""
    for each in KEPT:
        each.cache_clear()


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    word = word[:_LONGEST_TERM].replace("’", "'")
    if not word.isascii():
        bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", word))
        word = unicodedata.normalize("NFKC", bare) or word
    with _stemming:  # the stemmer keeps its word in itself
        stem: str = _stemmer.stemWord(word)
    return stem.replace("'", "") or word.replace("'", "")


KEPT = (_stem,)
"""What keeps words in the process's memory."""


_ENGLISH_STOP_WORDS = """
a about after again all also am an and any are as at be because been before being both but by can
could did do does doing done down each else ever every few for from get give go got had has have
having he her here hers him his how i if in into is it its just know let like may me might mine more
most much my new no nor not now of off on once one only or other our out over please same say says
said shall she should so some such tell than that the their them then there these they thing this
those to too under until up us user very was we were what when where which while who whom whose why
will with would yes you your
"""
_CHINESE_STOP_WORDS = """
什么 是什 怎么 怎样 为什 哪里 在哪 哪个 哪些 谁是 是谁 时候 么时 如何
多少 几个 我的 你的 他的 她的 我们 你们 他们 她们 这个 那个 这些 那些
用户 的是 了吗 是不 不是 有没 没有 可以 一个 一下 请问 告诉 诉我 关于
"""

STOP_WORDS = frozenset(terms(_ENGLISH_STOP_WORDS)) | {
    pair for pair in _CHINESE_STOP_WORDS.split() if len(pair) == 2
}
"""Terms that say nothing about a topic: function words of English, question words and pronouns of
Chinese."""


def content_terms(text: str) -> set[str]:
    """The terms of a text that say something: no function words, nor the single character by which
    a run of Chinese ends.

    >>> sorted(content_terms("Where does Ada live? 小明住"))
    ['ada', 'live', '小明', '明住']
    """
    content = set(terms(text)) - STOP_WORDS
    longer = {term for term in content if len(term) > 1}
    return longer or content


def written_numbers(text: str) -> frozenset[str]:
    """The numbers that are written in a text, without leading zeros and marks of thousands.

    >>> sorted(written_numbers("07 of 1,200, 二十 times"))
    ['1200', '7', '二十']
    """
    plain = _GROUPED.sub("", unicodedata.normalize("NFKC", text))
    digits = {run.lstrip("0") or "0" for run in _ALL_DIGITS.findall(plain)}
    return frozenset(digits | set(_CHINESE_NUMBER.findall(plain)))


def subject_key(subject: str) -> str:
    """What two ways to write a subject have in common.

    >>> subject_key("the Kitchens") == subject_key("Kitchen, the")
    True
    """
    return " ".join(sorted(set(terms(subject))))
