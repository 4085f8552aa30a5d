"""Whether a person has come to another topic, one that memory knows more about than this
conversation does.

Cosines of one model lie close together, and where they lie depends on the language and on the
model: so nothing is compared with a fixed number, but what memory offers with what was said here.
What was said is embedded as questions are, as the router does: that leaves out a few cases in which
the next words only sound alike, since questions lie nearer to each other than to passages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from service.domain.anchors import MemoryHit, SearchResult
from service.domain.history.state import RunLoopState
from service.memory.ledger.terms import terms
from service.routing.open_loop_vectors import EmbedQueries, embedded_text
from service.tuning import (
    RECALL_COMPARED_TURNS,
    RECALL_LEAST_OVERLAP,
    RECALL_LEAST_TERMS,
    RECALL_NEARER,
    RECALL_NEARER_SHARING,
    RECALL_WITHIN_COSINE,
)

_SMALL_WORDS = frozenset(
    terms(
        "a about again all also am an and any are as at be been but by can could describe did do"
        " does explain fine for from give good great had has have he help her here him his how i"
        " if in into is it its just let like may me more my no not now of ok okay on or our out"
        " please she should show so some tell than thank thanks that the their them then there"
        " they this to up us was way we well were what when where which who whom whose why will"
        " with would write yes you your"
    )
)
_SMALL_CHARACTERS = frozenset(
    "的了吗呢吧啊是我你您他她它们这那哪有在不和与也就都还又再要会能可以什么怎样多少几谁把被给对到为"
    "很请说着过来去上下里个一讲帮候"
)
_GREETINGS = frozenset(terms("hello hi hey bye goodbye morning evening night day nice cheers"))
_GREETING_HAN = re.compile(
    r"(?:你好|您好|大家好|早上?好?|晚上好|晚安|再见|拜拜|多谢|谢谢|辛苦|您|你|了|啊|呀|！|!)+"
)
_REQUEST = re.compile(
    r"\W*(?:please\s+)?(?:(?:explain|describe|tell|show|give|help|write|find|make)\b|请|给我|帮我|为我)",
    re.IGNORECASE,
)


def says_something(words: str) -> bool:
    """Whether words speak of any topic: a greeting, thanks or a yes do not.

    >>> says_something("Good morning!"), says_something("谢谢你！"), says_something("Momo?")
    (False, False, True)
    """
    bare = _GREETING_HAN.sub(" ", words)
    return any(
        term not in _SMALL_WORDS and term not in _GREETINGS and term not in _SMALL_CHARACTERS
        for term in terms(bare)
    )


def said_here(state: RunLoopState) -> list[str]:
    """What was said in a run loop, as far as it is compared: its goal, and its newest turns."""
    landing = {id(unseen.message) for unseen in state.unseen}
    turns = [
        embedded_text(message.text, message.role)
        for message in state.last_turns(RECALL_COMPARED_TURNS + len(state.unseen))
        if id(message) not in landing
    ]
    texts = (embedded_text(state.goal, "user"), *turns[-RECALL_COMPARED_TURNS:])
    return list(dict.fromkeys(text for text in texts if text.strip()))


async def of_another_topic(
    words: str, state: RunLoopState, offered: SearchResult, embed: EmbedQueries
) -> list[MemoryHit]:
    """The hits that are nearer to the words than anything that was said in the run loop.

    Args:
        words: what the person says now.
        state: the run loop that it is said in.
        offered: what memory offers for it, explained.
        embed: gives vectors.
    """
    said = said_here(state)
    vectors = None
    if offered.mode == "hybrid":
        vectors = await embed([embedded_text(words, "user"), *said])
    if vectors is None:
        return _by_words(words, state.id, said, offered.hits)
    nearest = max((float(vectors[0] @ vector) for vector in vectors[1:]), default=-1.0)
    new = content_words(words) - content_words(" ".join(said))
    return _by_cosine(nearest, new, state.id, offered.hits)


def _by_cosine(
    nearest: float, new: set[str], run_loop_id: str, hits: Sequence[MemoryHit]
) -> list[MemoryHit]:
    cosine = {hit.anchor.ref: (hit.scores or {}).get("cosine", -1.0) for hit in hits}
    here = [cosine[hit.anchor.ref] for hit in hits if hit.anchor.run_loop_id == run_loop_id]
    nearest = max([nearest, *here])
    offered = [
        hit
        for hit in hits
        if hit.related and hit.anchor.run_loop_id != run_loop_id and _says_much(hit)
    ]
    best = max((cosine[hit.anchor.ref] for hit in offered), default=-1.0)
    nearer = []
    for hit in offered:
        shares = not new.isdisjoint(content_words(hit.content))
        # What was asked elsewhere lies near whatever is asked, and answers nothing.
        if not shares and _asks(hit):
            continue
        bound = nearest + (RECALL_NEARER_SHARING if shares else RECALL_NEARER)
        if cosine[hit.anchor.ref] >= max(bound, best - RECALL_WITHIN_COSINE):
            nearer.append(hit)
    return nearer


def _by_words(
    words: str, run_loop_id: str, said: Sequence[str], hits: Sequence[MemoryHit]
) -> list[MemoryHit]:
    asked = content_words(words)
    if not asked:
        return []
    said_already = asked & content_words(" ".join(said))
    shares: dict[str, int] = {
        hit.anchor.text: len(asked & content_words(hit.content))
        for hit in hits
        if hit.anchor.run_loop_id != run_loop_id and _says_much(hit)
    }
    best = max(shares.values(), default=0)
    if best <= len(said_already) or best < RECALL_LEAST_OVERLAP * len(asked):
        return []
    return [hit for hit in hits if shares.get(hit.anchor.text, 0) == best]


def _says_much(hit: MemoryHit) -> bool:
    """Whether a hit says anything to be remembered: "Thanks!" is found word for word, for one."""
    return len(set(terms(hit.content))) >= RECALL_LEAST_TERMS


def _asks(hit: MemoryHit) -> bool:
    """Whether a hit is a question, or begins as a request."""
    text = hit.content.rstrip()
    return text.endswith(("?", "？")) or _REQUEST.match(text) is not None


def content_words(text: str) -> set[str]:
    """The words that carry a topic; of scripts without spaces, pairs of characters."""
    words = set[str]()
    for term in terms(text):
        if unicodedata.category(term[0]) == "Lo":
            if len(term) > 1 and _SMALL_CHARACTERS.isdisjoint(term):
                words.add(term)
        elif term not in _SMALL_WORDS and len(term) > 1:
            words.add(term)
    return words
