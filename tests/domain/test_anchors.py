"""Anchors have a short form that people can paste."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.anchors import AnchorRef
from service.domain.errors import BadAnchorError


@given(
    st.text(alphabet=st.characters(codec="utf-8"), min_size=1),
    st.integers(0, 10**8),
    st.integers(0, 10**8),
)
def test_an_anchor_survives_its_short_form_whatever_the_loop_is_called(
    loop: str, iteration: int, segment: int
) -> None:
    ref = AnchorRef(loop, iteration, segment)
    assert AnchorRef.parse(str(ref)) == ref
    assert " " not in str(ref)


@pytest.mark.parametrize("text", ["", "x", "loop:1", "loop:a.b", ":1.2", "loop:1.-2", "a b:1.2"])
def test_what_is_no_anchor_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadAnchorError) as error:
        AnchorRef.parse(text)
    assert "RUN_LOOP_ID:ITERATION.SEGMENT" in error.value.problem().in_words()


def test_an_anchor_may_be_pasted_with_its_brackets() -> None:
    assert AnchorRef.parse(" [01jd3v6k2m9x4q8w:0.1]\n") == AnchorRef("01jd3v6k2m9x4q8w", 0, 1)
