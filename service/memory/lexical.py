"""What counts as a word: the terms that are indexed, and the terms that a query looks for.

Words of scripts that write spaces are folded to lower case, stripped of accents and stemmed as
English. Scripts that write none (Chinese, Japanese, Korean, Thai and their neighbours) are indexed
as overlapping pairs of characters, so that any two characters in a row are found inside a longer
text; the last character of a run stands alone as well, so that every single character begins some
term and a prefix finds it.

>>> list(terms("Runs, café's 我喜欢"))
['run', 'cafe', '我喜', '喜欢', '欢']
>>> match_expression('run NEAR "我喜欢" 猫*')
'"run" OR "near" OR "我喜" OR "喜欢" OR "猫"*'
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise

import snowballstemmer

from service.memory.tuned import QUERY_TERMS

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

_LONGEST_TERM = 64
_ACCENTS = re.compile(r"[\u0300-\u036f]")

_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()


def terms(text: str) -> Iterator[str]:
    """The terms of a text, in order, as they are indexed. None holds a space or a quote."""
    for run, unspaced in _runs(text):
        if unspaced:
            yield from map("".join, pairwise(run))
            yield run[-1]
        else:
            yield _stem(run)


def match_expression(query: str) -> str | None:
    """The FTS5 expression that finds any term of a query; None when it holds no word.

    Every term is quoted, so that nothing in the query can be syntax.
    """
    wanted = dict.fromkeys(islice(_query_terms(query), 100 * QUERY_TERMS))
    return " OR ".join(islice(wanted, QUERY_TERMS)) or None


def _query_terms(query: str) -> Iterator[str]:
    for run, unspaced in _runs(query):
        if not unspaced:
            yield f'"{_stem(run)}"'
        elif len(run) == 1:
            yield f'"{run}"*'
        else:
            for pair in pairwise(run):
                yield f'"{pair[0]}{pair[1]}"'


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Runs of letters, and whether they are of a script without spaces."""
    for match in _RUNS.finditer(unicodedata.normalize("NFKC", text).casefold()):
        yield match[0], match["unspaced"] is not None


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    word = word[:_LONGEST_TERM].replace("’", "'")
    if not word.isascii():
        bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", word))
        word = unicodedata.normalize("NFKC", bare) or word
    with _stemming:  # the stemmer keeps its word in itself
        stem: str = _stemmer.stemWord(word)
    return stem.replace("'", "") or word.replace("'", "")
