"""The main figures of a report, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SHARES = ("recall@1", "recall@5", "recall@10", "recall@50", "all@10", "any@10", "mrr")


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """A line for each set and arm, shares in percent."""
    rows = [(name, arms) for name, arms in report["sets"].items()]
    if len(rows) > 1:
        rows.append(("overall", report["overall"]))
    width = max(len("set"), *(len(name) for name, _ in rows))
    head = " ".join(f"{name:>9}" for name in _SHARES)
    yield f"{'set':<{width}} {'arm':<8}{'queries':>8} {head} {'p50 ms':>8} {'p95 ms':>8}"
    for name, arms in rows:
        for arm, figures in arms.items():
            shares = " ".join(f"{100 * figures[share]:9.1f}" for share in _SHARES)
            yield (
                f"{name:<{width}} {arm:<8}{figures['queries']:>8} {shares}"
                f" {figures['p50_ms']:8.1f} {figures['p95_ms']:8.1f}"
            )
