"""The main figures of a report, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SHARES = ("accuracy", "new_f1", "ece", "without_llm")
_TIMES = ("p50_ms", "p95_ms", "embedding_p50_ms", "ratio")
_WIDTH = 12


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """A line for each set and method; one for the speed; the notices last."""
    sets = report["sets"]
    width = max(len("set"), *(len(name) for name in sets))
    heads = (*_SHARES, "p50 ms", "p95 ms", "embed p50", "ratio")
    head = " ".join(f"{name:>{_WIDTH}}" for name in heads)
    yield f"{'set':<{width}} {'method':<10}{'messages':>8} {head}"
    for name, methods in sets.items():
        for method, figures in methods.items():
            shares = " ".join(f"{figures[each]:{_WIDTH}.4f}" for each in _SHARES)
            times = " ".join(_number(figures[each]) for each in _TIMES)
            yield f"{name:<{width}} {method:<10}{figures['messages']:>8} {shares} {times}"
    if speed := report["speed"]:
        beside = f", ratio {speed['ratio']}" if speed["ratio"] is not None else ""
        yield (
            f"among {speed['loops']} made-up loops: p50 {speed['p50_ms']} ms,"
            f" p95 {speed['p95_ms']} ms{beside}"
        )
    for name, notices in report["notices"].items():
        for notice in notices:
            yield f"{name}: {notice}"


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.2f'):>{_WIDTH}}"
