"""Usage in a terminal: a table with totals, and what one run loop has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.output import aside, one_line, out, plain
from service.domain.usage import Grouping, LoopUsage, UsageReport, UsageTotals

if TYPE_CHECKING:
    from rich.table import Table

_HEADS: dict[Grouping, str] = {
    "day": "day",
    "model": "model",
    "purpose": "for",
    "run_loop": "run loop",
}


def print_usage(report: UsageReport) -> None:
    """A line for each day, model, purpose or run loop, and the totals."""
    if not report.total.calls:
        aside().print("No model was called in that time.", style="dim")
        return
    out().print(_table(report), crop=False)
    total = report.total
    notes = []
    if report.more:
        notes.append(f"The first {len(report.lines)} lines; --limit shows more.")
    if total.estimated_calls:
        notes.append(
            f"~ The endpoint did not report the tokens of {_calls(total.estimated_calls)}: they are"
            " estimated from the length of the words."
        )
    if total.cost is not None and total.calls_without_cost:
        notes.append(f"{_calls(total.calls_without_cost).capitalize()} had no price then.")
    for note in notes:
        aside().print(note, style="dim")


def used_in_words(usage: LoopUsage) -> str:
    """What a run loop has used, in a line.

    >>> used_in_words(
    ...     LoopUsage(
    ...         input_tokens=1200,
    ...         output_tokens=80,
    ...         cached_input_tokens=1000,
    ...         cost=0.0123,
    ...         currency="USD",
    ...     )
    ... )
    '1,200 tokens in (1,000 cached), 80 out, 0.0123 USD'
    """
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    words = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    if usage.cost is None:
        return words
    return f"{words}, {money(usage.cost)} {plain(usage.currency or '')}".rstrip()


def money(cost: float) -> str:
    """An amount, with more places where it is small.

    >>> money(1234.5), money(0.0123), money(0.000012), money(0)
    ('1,234.50', '0.0123', '<0.0001', '0.00')
    """
    if cost == 0 or cost >= 1:
        return f"{cost:,.2f}"
    return f"{cost:.4f}" if cost >= 0.0001 else "<0.0001"


def _table(report: UsageReport) -> Table:
    from rich.table import Table

    with_cost = report.total.cost is not None
    with_goals = report.by == "run_loop"
    table = Table(
        box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_footer=True
    )
    table.add_column(_HEADS[report.by], "total", no_wrap=True, footer_style="bold")
    for head, footer in zip(_columns(report), _cells(report.total, with_cost), strict=True):
        table.add_column(head, footer, justify="right", no_wrap=True, footer_style="bold")
    if with_goals:
        table.add_column("goal", overflow="ellipsis", no_wrap=True)
    for line in report.lines:
        goal = [one_line(line.goal or "", 500)] if with_goals else []
        table.add_row(plain(line.key), *_cells(line, with_cost), *goal)
    return table


def _columns(report: UsageReport) -> list[str]:
    cost = [f"cost ({plain(report.currency)})" if report.currency else "cost"]
    return ["calls", "tokens in", "cached", "out", *(cost if report.total.cost is not None else [])]


def _cells(totals: UsageTotals, with_cost: bool) -> list[str]:
    about = "~" if totals.estimated_calls else ""
    cells = [
        f"{totals.calls:,}",
        f"{about}{totals.input_tokens:,}",
        f"{totals.cached_input_tokens:,}",
        f"{about}{totals.output_tokens:,}",
    ]
    if with_cost:
        cells.append("" if totals.cost is None else money(totals.cost))
    return cells


def _calls(count: int) -> str:
    return "one call" if count == 1 else f"{count:,} calls"
