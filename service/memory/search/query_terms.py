"""What a query asks for: the texts to embed, and the words that say something.

A query may be a dialogue, each line "Name: words". Then the person who speaks last asks: their
lines say what is looked for, and the last exchange says it most. What others said in between adds
words that the person did not use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from service.memory.ledger.terms import STOP_WORDS, query_terms, terms
from service.memory.memory_tuning import POSTINGS

if TYPE_CHECKING:
    from service.memory.protocol import Vectors

Asks = Literal["topic", "named time", "oldest", "newest"]

_OF_TIME = frozenset(terms("since till during between around"))
_LABEL = re.compile(r"\s*([^\s:：][^:：]{0,39}?)\s*(?::\s|：)\s*\S")


@dataclass(frozen=True, slots=True)
class Question:
    """A query, read."""

    texts: tuple[str, ...]
    """What to embed, in one batch: the query, or two texts of a dialogue."""
    terms: tuple[str, ...]
    """What to look up, each once, as `lexical.query_terms` gives them, without words that say
    nothing (unless there are no others)."""
    of_time: frozenset[str] = frozenset()
    """Of these, what only names a time; none where nothing else is asked."""
    asks: Asks = "topic"
    """``oldest`` and ``newest``: for what was said at a time, whatever it was, from its beginning
    or from its end on; ``named time``: for that, or for what speaks of it: "Christmas"."""

    @property
    def by_time(self) -> bool:
        """Whether what was said at a time is to come first, in its order."""
        return self.asks in ("oldest", "newest")

    @property
    def topic(self) -> tuple[str, ...]:
        """The terms but for those of a time."""
        return tuple(term for term in self.terms if term not in self.of_time)


def read_question(query: str) -> Question:
    """Read a query. Pure.

    >>> read_question("When did Ann see the whale?").terms
    ('ann', 'see', 'whale')
    >>> read_question("Ann: A whale!\\nBob: Where?\\nAnn: At sea.").texts
    ('Ann: A whale!\\nAnn: At sea.', 'Bob: Where?\\nAnn: At sea.')
    """
    turns = _turns(query)
    asking = [text for name, text in turns if name == turns[-1][0]]
    if len(asking) > 1:
        own = "\n".join(asking)
        last = "\n".join(text for _, text in turns[-2:])
        texts = (own,) if own == last else (own, last)
        looked_up = query_terms(own)
    else:
        texts, looked_up = (query,), query_terms(query)
    telling = [term for term in looked_up if term not in STOP_WORDS]
    return Question(texts, tuple(telling or looked_up))


def about_a_time(question: Question, rest: str, *, asks: Asks) -> Question:
    """The same question, where it is known that it names a time.

    Args:
        question: as it was read.
        rest: what it says beside its time expressions.
        asks: whether that is a topic.

    >>> about_a_time(read_question("a whale in May"), "a whale in ", asks="topic").topic
    ('whale',)
    """
    topic = {term for term in query_terms(rest) if term not in _OF_TIME}
    of_time = frozenset(question.terms) - topic
    if len(of_time) == len(question.terms):
        of_time = frozenset()
    return replace(question, of_time=of_time, asks=asks)


def query_vector(vectors: Vectors) -> Vectors:
    """One vector, shape (1, dimension), for the vectors of a question's texts: their direction.

    Raises:
        ValueError: there are no vectors.
    """
    import numpy as np

    if not len(vectors):
        raise ValueError("a question has at least one text")
    total = vectors.sum(axis=0, keepdims=True)
    length = float(np.linalg.norm(total))
    # Opposite vectors have no common direction; then the first text speaks for all.
    return total / length if length > 1e-6 else vectors[:1]


def rare_terms(terms: Sequence[str], frequency: Mapping[str, int]) -> list[str]:
    """The terms that are worth a look into the index, rarest first.

    Reading the index takes time in proportion to the places where the terms stand, and the common
    ones decide little. So terms are taken, rarest first, while their places together number at
    most `tuned.POSTINGS`; the rarest is taken always. A small store loses none.

    Args:
        terms: of a question.
        frequency: in how many segments each stands; those that stand in none are left out.

    >>> rare_terms(["the", "whale", "of", "zebra"], {"the": 9_000, "whale": 3, "of": 8_000})
    ['whale']
    """
    by_frequency = sorted((frequency[term], term) for term in terms if frequency.get(term, 0) > 0)
    taken, places = list[str](), 0
    for count, term in by_frequency:
        places += count
        if taken and places > POSTINGS:
            break
        taken.append(term)
    return taken


def count_terms(query_terms: Iterable[str], terms: str) -> dict[str, int]:
    """How often terms, or terms that begin so, stand among these; those that do not are left out.

    >>> count_terms(["cat", "do*", "fish"], "cat dog do cat catfish")
    {'cat': 2, 'do*': 2}
    """
    split: list[str] | None = None
    often: dict[str, int] = {}
    for term in query_terms:
        start = term.removesuffix("*")
        if start not in terms:  # most are not, and this is the fastest way to know
            continue
        if split is None:
            split = terms.split()
        if start == term:
            count = split.count(term)
        else:
            count = sum(each.startswith(start) for each in split)
        if count:
            often[term] = count
    return often


def _turns(query: str) -> list[tuple[str, str]]:
    """Who says what. A line without a name goes on with the turn before it; one speaker without a
    name for a query that is no dialogue."""
    turns: list[tuple[str, str]] = []
    for line in query.splitlines():
        if not line.strip():
            continue
        label = _LABEL.match(line)
        if label is not None:
            turns.append((label[1].casefold(), line))
        elif turns:
            turns[-1] = (turns[-1][0], f"{turns[-1][1]}\n{line}")
        else:
            break
    return turns or [("", query)]
