"""Medians and percentiles of milliseconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed, interpolated.

    Args:
        values: at least one.
        percent: 1 to 99.

    >>> percentile([1.0, 2.0, 3.0], 50), percentile([4.0], 95)
    (2.0, 4.0)
    """
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
