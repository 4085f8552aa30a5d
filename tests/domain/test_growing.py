"""A sequence that grows without copying, and yet never changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.history.growing import Growing


@given(st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(), max_size=3)), max_size=30))
def test_each_sequence_stays_what_it_was_whatever_grows_out_of_it(
    steps: list[tuple[int, list[int]]],
) -> None:
    grown: list[tuple[Growing[int], list[int]]] = [(Growing(), [])]
    for origin, items in steps:
        sequence, expected = grown[origin % len(grown)]
        grown.append((sequence.plus(*items), [*expected, *items]))
    for sequence, expected in grown:
        assert list(sequence) == expected
        assert len(sequence) == len(expected)
        assert sequence == expected
        assert sequence[1:] == expected[1:]
        assert sequence[::-1] == expected[::-1]
        assert list(reversed(sequence)) == expected[::-1]
        if expected:
            assert (sequence[0], sequence[-1]) == (expected[0], expected[-1])


@pytest.mark.parametrize("index", [2, -3])
def test_beyond_its_end_there_is_nothing_even_where_another_one_went_on(index: int) -> None:
    short = Growing([1, 2])
    short.plus(3)
    with pytest.raises(IndexError):
        short[index]
