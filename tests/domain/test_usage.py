"""What a call costs: tokens times prices, and never less than nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.conversation.stream_parts import TokenUsage
from service.domain.usage import Prices

price = st.floats(0, 1000)
count = st.integers(0, 10**9)


@given(price, price, price, count, count, count)
def test_cached_tokens_are_part_of_the_input_and_priced_as_such(
    fresh: float, said: float, cached: float, tokens_in: int, tokens_out: int, from_cache: int
) -> None:
    used = TokenUsage("m", tokens_in, tokens_out, from_cache)
    cost = Prices(input=fresh, output=said, cached_input=cached).cost(used)
    least = min(tokens_in, from_cache)
    expected = (tokens_in - least) * fresh + least * cached + tokens_out * said
    assert cost == pytest.approx(expected / 1_000_000)
    assert cost >= 0


def test_without_a_price_of_their_own_cached_tokens_cost_as_much_as_others() -> None:
    prices = Prices(input=2, output=8)
    assert prices.cost(TokenUsage("m", 100, 0, 100)) == prices.cost(TokenUsage("m", 100, 0))
