"""Texts are cut to fit: within the bound, at both ends as they were, and honestly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.conversation.token_estimates import estimate_tokens
from service.loop.context.shortening import brief, cap_within, first_sentences, shortened

texts = st.text(alphabet=st.sampled_from("ab. 中文。\n\U0001f600!"), max_size=600)


@given(texts, st.integers(60, 200))
def test_a_cut_text_is_within_its_bound_and_keeps_both_ends(text: str, bound: int) -> None:
    cut = shortened(text, bound)
    assert estimate_tokens(cut) <= bound
    if estimate_tokens(text) <= bound:
        assert cut == text
    else:
        head, _, tail = cut.partition("\n[… ")
        assert text.startswith(head)
        assert text.endswith(tail.partition(" …]\n")[2])
        assert head


@given(texts, st.integers(1, 200))
def test_first_sentences_are_the_beginning_of_the_text(text: str, bound: int) -> None:
    line = " ".join(text.split())
    said = first_sentences(text, bound)
    assert line.startswith(said.removesuffix("…").rstrip())
    assert estimate_tokens(said) <= bound + 1
    assert estimate_tokens(brief(text, bound)) <= bound + 1


@given(st.lists(st.integers(0, 1000)), st.integers(0, 5000))
def test_a_cap_is_the_largest_that_fits(sizes: list[int], total: int) -> None:
    cap = cap_within(sizes, total)
    assert sum(min(size, cap) for size in sizes) <= total
    if any(size > cap for size in sizes):
        assert sum(min(size, cap + 1) for size in sizes) > total
