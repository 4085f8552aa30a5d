"""The order where tokens tell the meaning of passages."""

from __future__ import annotations

from dataclasses import replace

from service.domain.anchors import AnchorRef
from service.memory.ledger.terms import terms
from service.memory.memory_tuning import RANKING, RANKING_BY_TOKENS
from service.memory.search.passages import Corpus, InContext, Passage
from service.memory.search.query_terms import read_question
from service.memory.search.ranking import Ranked, rank


def passage(loop: str, text: str, *, cosine: float | None, match: float | None) -> Passage:
    return Passage(AnchorRef(loop, 0, 0), text, " ".join(terms(text)), cosine, match)


def ranked(*passages: Passage) -> list[Ranked]:
    return rank(read_question("sailing"), [*map(InContext, passages)], Corpus(len(passages), {}))


def order(*passages: Passage) -> list[str]:
    return [each.ref.run_loop_id for each in ranked(*passages)]


OTHERS = [
    passage(f"other{at}", f"Nothing of note {at}", cosine=0.79 + at / 1000, match=0.3 + at / 1000)
    for at in range(10)
]


def test_tokens_decide_where_most_passages_have_codes() -> None:
    by_vector = passage("vector", "Great. Take care.", cosine=0.9, match=0.3)
    by_tokens = passage("tokens", "We crossed the sea by boat", cosine=0.8, match=0.6)
    assert order(by_vector, by_tokens, *OTHERS)[0] == "tokens"


def test_vectors_decide_where_few_passages_have_codes() -> None:
    bare = [each._replace(match=None) for each in OTHERS]
    near = passage("near", "We crossed the sea by boat", cosine=0.9, match=None)
    first = passage("coded", "Take care.", cosine=0.8, match=0.9)
    assert order(near, first, *bare)[0] == "near"


def test_a_passage_without_codes_is_judged_by_its_vector_meanwhile() -> None:
    new = passage("new", "We crossed the sea by boat", cosine=0.9, match=None)
    scores = {each.ref.run_loop_id: each.score for each in ranked(new, *OTHERS)}
    assert scores["new"] == max(scores.values())
    newest = passage("newest", "No word of it", cosine=None, match=None)
    scores = {each.ref.run_loop_id: each.score for each in ranked(newest, *OTHERS)}
    assert abs(scores["newest"]) < 0.01, "neither near nor far"


def test_other_weights_can_be_given() -> None:
    asking = passage("asking", "Sailing?", cosine=0.8, match=0.6)
    question, corpus = read_question("sailing"), Corpus(11, {})
    pool = [*map(InContext, (asking, *OTHERS))]
    heavy = replace(RANKING_BY_TOKENS, question=-99.0)
    assert rank(question, pool, corpus)[0].ref.run_loop_id == "asking"
    assert rank(question, pool, corpus, weights=heavy)[-1].ref.run_loop_id == "asking"


def test_both_formulas_are_made_of_the_same_parts() -> None:
    assert RANKING.meaning == RANKING_BY_TOKENS.meaning == 1.0
    assert RANKING.meaning_nearby.keys() == RANKING_BY_TOKENS.meaning_nearby.keys()
