"""Forgetting in a terminal: what would go, and what has gone."""

from __future__ import annotations

from collections.abc import Sequence

from service.cli.terminal.output import aside, one_line, out, plain
from service.cli.views.memory_views import day
from service.cli.views.phrases import counted
from service.domain.forgetting import CopyKind, ForgetPreview, ForgetReceipt, RunLoopMention

_SHOWN = 20  # of each kind; `--json` has all
_WIDTH = 70
_KINDS: dict[CopyKind, str] = {
    "fork": "forked from it",
    "moved": "a message was moved from there",
    "recalled": "was given it from memory",
    "quoted": "quotes it",
    "repeated": "says the same at length",
    "summary": "sums it up",
}


def print_preview(preview: ForgetPreview) -> None:
    """What would be forgotten."""
    loops = [
        f"{plain(each.id)}  {day(each.created_at.astimezone().isoformat())}"
        f"  {counted(each.iterations, 'iteration')}  {one_line(each.goal, _WIDTH)}"
        for each in preview.run_loops
    ]
    _list("Whole run loops:", loops)
    single = [
        f"{plain(each.run_loop_id)}:{each.iteration}"
        f"  {day(each.at.astimezone().isoformat())}  {one_line(each.words, _WIDTH)}"
        for each in preview.iterations
    ]
    _list("Single iterations:", single)
    copies = [
        f"{plain(each.run_loop_id)}  {counted(each.places, 'place')}"
        f"  {', '.join(_KINDS[kind] for kind in each.kinds)}: {one_line(each.goal, _WIDTH)}"
        for each in preview.copies
    ]
    _list("Copies elsewhere, which go too:", copies)
    _list("These may speak of it in words of their own, which stay:", _mentions(preview.related))
    _list("Active:", _mentions(preview.active))
    if preview.notice:
        aside().print(plain(preview.notice), style="yellow")
    else:
        events = counted(preview.events, "event")
        out().print(f"{events} of the journal would lose their words, and all that follows them.")


def print_receipt(receipt: ForgetReceipt) -> None:
    """What has been forgotten."""
    gone = receipt.removed
    single = sum(map(len, receipt.iterations.values()))
    parts = (
        counted(len(receipt.run_loops), "run loop"),
        counted(single, "single iteration"),
        f"copies in {counted(len(receipt.copies), 'other run loop')}",
    )
    out().print(
        f"{day(receipt.at.astimezone().isoformat())}  forgotten: {', '.join(parts)}", soft_wrap=True
    )
    out().print(
        f"  removed {counted(gone.events, 'event')}, {counted(gone.segments, 'segment')} with their"
        f" vectors, {counted(gone.notes, 'sentence')} of notes,"
        f" {counted(gone.approvals, 'standing approval')};"
        f" {counted(gone.rewritten, 'event')} left without their words",
        soft_wrap=True,
    )
    if receipt.pending:
        places = ", ".join(receipt.pending)
        out().print(
            f"  remains are still being removed from: {places}", style="yellow", soft_wrap=True
        )
        if receipt.problem:
            out().print(f"  {plain(receipt.problem)}", style="yellow", soft_wrap=True)
    out().print(f"  receipt {plain(receipt.id)}", style="dim")


def _mentions(run_loops: Sequence[RunLoopMention]) -> list[str]:
    return [f"{plain(each.id)}  {each.status}  {one_line(each.goal, _WIDTH)}" for each in run_loops]


def _list(title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    out().print(title, style="bold")
    for line in lines[:_SHOWN]:
        out().print(f"  {line}", soft_wrap=True)
    if len(lines) > _SHOWN:
        out().print(f"  … and {len(lines) - _SHOWN} more", style="dim")
