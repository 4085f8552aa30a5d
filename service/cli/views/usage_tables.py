"""Usage in a terminal: a table with totals, and what one run loop has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.terminal.output import aside, one_line, out, plain
from service.domain.spend import PeriodSpend, SpendStatus
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
    if report.spend is not None:
        _print_caps(report.spend, report.currency)
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


def caps_in_words(spend: SpendStatus, currency: str | None) -> list[str]:
    """How far each day's and month's caps are used up, in a line; none where there are no caps."""
    periods = (("today", spend.day), ("this month", spend.month))
    lines = ((name, _cap_in_words(period, currency or "")) for name, period in periods)
    return [f"{name}: {words}" for name, words in lines if words]


def used_up(spend: SpendStatus) -> PeriodSpend | None:
    """The period that is used up until last, if any is."""
    for each in (spend.month, spend.day):
        tokens = each.tokens_cap is not None and each.tokens_used >= each.tokens_cap
        if tokens or (each.cost_cap is not None and each.cost_used >= each.cost_cap):
            return each
    return None


def _cap_in_words(period: PeriodSpend, currency: str) -> str:
    words = []
    if period.tokens_cap is not None:
        reserved = f", and {period.tokens_reserved:,} reserved" if period.tokens_reserved else ""
        words.append(f"{period.tokens_used:,} of {period.tokens_cap:,} tokens{reserved}")
    if period.cost_cap is not None:
        reserved = f", and {money(period.cost_reserved)} reserved" if period.cost_reserved else ""
        cost = f"{money(period.cost_used)} of {money(period.cost_cap)} {plain(currency)}".rstrip()
        words.append(f"{cost}{reserved}")
    return "; ".join(words)


def _print_caps(spend: SpendStatus, currency: str | None) -> None:
    for line in caps_in_words(spend, currency):
        out().print(line, highlight=False)
    if (period := used_up(spend)) is not None:
        until = period.until.astimezone()
        aside().print(f"No model is asked before {until:%Y-%m-%d %H:%M}.", style="yellow")


def print_used(usage: LoopUsage) -> None:
    """What a run loop has used, if anything."""
    if usage.input_tokens or usage.output_tokens:
        aside().print(used_in_words(usage), style="dim")


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
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    with_cost = report.total.cost is not None
    cost = [f"cost ({plain(report.currency)})" if report.currency else "cost"] if with_cost else []
    heads = [_HEADS[report.by], "calls", "tokens in", "cached", "out", *cost]
    rows = [[plain(line.key) or "(none)", *_cells(line, with_cost)] for line in report.lines]
    totals = ["total", *_cells(report.total, with_cost)]
    table = Table(
        box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_footer=True
    )
    for number, column in enumerate(zip(heads, totals, *rows, strict=True)):
        table.add_column(
            column[0],
            column[1],
            justify="right" if number else "left",
            no_wrap=True,
            # Ids and numbers that are cut are of no use: only the goal gives way.
            min_width=max(map(cell_len, column)),
            footer_style="bold",
        )
    if report.by == "run_loop":
        table.add_column("goal")
    for line, row in zip(report.lines, rows, strict=True):
        goal = Text(one_line(line.goal or "", 500), no_wrap=True, overflow="ellipsis")
        table.add_row(*row, *([goal] if report.by == "run_loop" else []))
    return table


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
