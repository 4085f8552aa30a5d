"""The figures of what was decided."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from service.bench.latency import percentile
from service.bench.routing.routing_metrics import Decided, calibration, measured

_SIZES = ((0, "0"), (1, "1"), (5, "2-5"), (20, "6-20"))
"""Up to so many candidates, and what these numbers are called."""
_MORE = "more"


def of_decided(decided: Sequence[Decided]) -> dict[str, Any]:
    """The figures of some decisions, at least one.

    Returns:
        ``messages``, ``accuracy``, ``new_f1``, ``ece`` and ``kinds``, see `metrics.measured`;
        ``without_llm``, the share that the language model was not needed for; ``methods``, how many
        each decided; what `of_times` gives; ``calibration``, see `metrics.calibration`;
        ``by_candidates``, messages and accuracy by how many loops were active.
    """
    decisions = [each.decision for each in decided]
    methods = Counter(each.method for each in decided)
    return {
        **measured(decisions),
        "without_llm": round(1 - methods["llm"] / len(decided), 4),
        "methods": dict(methods.most_common()),
        **of_times(decided),
        "by_candidates": _by_candidates(decided),
        "calibration": calibration(decisions),
    }


def of_times(decided: Sequence[Decided]) -> dict[str, float | None]:
    """What deciding took, in milliseconds, where there was a choice; at least one message.

    Returns:
        ``p50_ms`` and ``p95_ms`` of a decision, the embedding of the message included;
        ``embedding_p50_ms``, the same messages by the bare embedder; ``ratio``, the median over the
        messages of decision over embedding. The last two are None where nothing was embedded.
    """
    chosen = [each for each in decided if each.candidates] or decided
    return times([(each.ms, each.embedding_ms) for each in chosen])


def times(taken: Sequence[tuple[float, float | None]]) -> dict[str, float | None]:
    """The same of a decision and the bare embedding of its message, each; None: not embedded."""
    subject = [ms for ms, _ in taken]
    pairs = [(ms, bare) for ms, bare in taken if bare]
    return {
        "p50_ms": round(statistics.median(subject), 2),
        "p95_ms": round(percentile(subject, 95), 2),
        "embedding_p50_ms": round(statistics.median(bare for _, bare in pairs), 2)
        if pairs
        else None,
        "ratio": round(statistics.median(ms / bare for ms, bare in pairs), 3) if pairs else None,
    }


def _by_candidates(decided: Sequence[Decided]) -> dict[str, dict[str, Any]]:
    names = [name for _, name in _SIZES] + [_MORE]
    groups: dict[str, list[Decided]] = {name: [] for name in names}
    for each in decided:
        groups[_size(each.candidates)].append(each)
    by_size: dict[str, dict[str, Any]] = {}
    for name, some in groups.items():
        if some:
            figures = measured([each.decision for each in some])
            by_size[name] = {key: figures[key] for key in ("messages", "accuracy")}
    return by_size


def _size(candidates: int) -> str:
    return next((name for most, name in _SIZES if candidates <= most), _MORE)
