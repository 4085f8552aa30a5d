"""States of tokens in bits, and how well those of a passage match those of a question."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from service.memory.protocol import TokenStates, Vectors
from service.memory.search.token_matches import TokenMatches
from service.memory.vectors.token_codes import best_matches, encode, encode_all


def unit(rows: int, dimension: int = 384, *, seed: int = 0) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((rows, dimension))
    drawn[:, :3] *= 12  # as in a transformer: a few dimensions hold most of the length
    states: Vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return states


def asked(states: Vectors, information: float | list[float] = 9.0) -> TokenStates:
    told = np.broadcast_to(np.array(information, dtype=np.float32), len(states))
    return TokenStates(states, told)


def token_matches(question: list[TokenStates], codes: dict[int, bytes]) -> dict[int, float]:
    matches = TokenMatches(question)
    matches.read(codes)
    return matches.by_number()


@pytest.mark.parametrize("dimension", [256, 384, 768, 1024, 312])
def test_a_token_takes_a_bit_for_a_dimension_and_finds_itself(dimension: int) -> None:
    states = unit(40, dimension)
    codes = [encode(states[at : at + 4]) for at in range(0, 40, 4)]
    assert {len(each) for each in codes} == {4 * dimension // 8}
    nearest = best_matches(states, codes).argmax(axis=1)
    assert (nearest == np.arange(40) // 4).mean() > 0.9


def test_signs_of_turned_states_come_near_the_cosines() -> None:
    states, question = unit(300), unit(12, seed=1)
    passages = np.split(states, 30)
    exact = np.array([(question @ each.T).max(axis=1) for each in passages]).T
    codes = [encode(each) for each in passages]
    turned = np.corrcoef(best_matches(question, codes).ravel(), exact.ravel())[0, 1]
    signs = [question @ np.sign(each).T / np.sqrt(384) for each in passages]
    plain = np.corrcoef(np.array([each.max(axis=1) for each in signs]).T.ravel(), exact.ravel())
    assert turned > 0.9
    assert turned > plain[0, 1] + 0.02, "else there is no use in turning them"


def test_passages_of_any_length_stand_side_by_side() -> None:
    states = unit(10)
    codes = [encode(states[:1]), encode(states[1:9]), encode(states[9:])]
    whole = best_matches(states[:3], codes)
    assert whole.shape == (3, 3)
    for at, each in enumerate(codes):
        assert np.allclose(best_matches(states[:3], [each])[:, 0], whole[:, at], atol=1e-6)


def test_codes_of_today_can_be_read_in_years() -> None:
    digest = hashlib.sha256(encode(np.eye(384, dtype=np.float32))).hexdigest()
    assert digest[:16] == "c356e272b34db046", "the format has changed: give `FORMAT` a new name"


def test_several_texts_are_coded_as_each_by_itself() -> None:
    states = unit(9)
    texts = [asked(states[:4]), asked(states[4:4]), asked(states[4:9])]
    assert encode_all(texts) == [encode(each.states) for each in texts]


def test_tokens_that_could_stand_anywhere_are_not_kept() -> None:
    states = unit(10)
    usual = [9.0, 2.0, 9.0, 9.0, 3.0, 8.0, 9.0, 1.0, 7.5, 2.0]
    text, short = asked(states, usual), asked(states[:5], [3.0, 2.0, 9.0, 3.0, 1.0])
    kept, of_short = encode_all([text, short])
    assert kept == encode(states[[0, 2, 3, 5, 6, 8]])
    assert of_short == encode(states[:4]), "what a short text has is kept, and of little the best"


def test_a_text_without_tokens_has_no_codes_and_matches_nothing() -> None:
    nothing, states = np.zeros((0, 384), dtype=np.float32), unit(2)
    assert encode(nothing) == b""
    assert token_matches([asked(states)], {1: encode(states), 2: b""}).keys() == {1}
    assert token_matches([asked(states)], {2: b""}) == {}
    assert token_matches([asked(nothing, [])], {1: encode(states)}) == {}
    assert token_matches([], {1: encode(states)}) == {}


def test_a_single_passage_is_compared_by_all_tokens_alike() -> None:
    states = unit(2)
    (match,) = token_matches([asked(states)], {7: encode(states)}).values()
    assert 0.7 < match < 0.9


def test_what_was_not_to_be_expected_says_more() -> None:
    states = unit(6)
    codes = {1: encode(states[[0, 4]]), 2: encode(states[[1, 5]])}
    rare_first = token_matches([asked(states[:2], [12.0, 5.0])], codes)
    assert rare_first[1] > rare_first[2] + 0.3
    alike = token_matches([asked(states[:2], [9.0, 9.0])], codes)
    assert abs(alike[1] - alike[2]) < 0.1


def test_what_stands_in_every_passage_says_nothing() -> None:
    states = unit(9)
    codes = {number: encode(states[[0, number]]) for number in range(1, 9)}
    matches = token_matches([asked(states[:2])], codes)
    others = [match for number, match in matches.items() if number != 1]
    assert matches[1] > max(others) + 0.25


def test_each_text_of_a_question_counts_the_same() -> None:
    states = unit(6)
    codes = {number: encode(states[[number]]) for number in range(6)}
    one, other = asked(states[:1]), asked(states[1:2])
    both = token_matches([one, other], codes)
    apart = [token_matches([each], codes) for each in (one, other)]
    for number, match in both.items():
        assert match == pytest.approx((apart[0][number] + apart[1][number]) / 2, abs=1e-5)


def test_what_is_read_bit_by_bit_matches_as_what_is_read_at_once() -> None:
    states, question = unit(30), [asked(unit(5, seed=1)), asked(unit(3, seed=2))]
    codes = {number: encode(each) for number, each in enumerate(np.split(states, 10))}
    matches = TokenMatches(question)
    assert matches.by_number() == {}
    for number, each in codes.items():
        matches.read({number: each})
        matches.read({number: b"", 99: b""})
    assert matches.by_number() == pytest.approx(token_matches(question, codes), abs=1e-6)
