"""What a benchmark says when it cannot measure."""

from __future__ import annotations

from service.domain.errors import RondoError


class BenchmarkError(RondoError):
    """Something cannot be measured."""

    kind = "benchmark"
    title = "The benchmark could not run"
