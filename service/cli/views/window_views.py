"""Stretches of remembered run loops in a terminal, and how to go on from there."""

from __future__ import annotations

from service.cli.terminal.output import aside, one_line, out, plain
from service.cli.views.memory_views import LABELS, day
from service.domain.anchors import AnchorRef, ExpandedContext, ExpandedWindow, Segment


def print_context(context: ExpandedContext) -> None:
    """A segment and what stood around it."""
    print_window(
        ExpandedWindow(
            run_loop=context.run_loop,
            focus=(context.focus,),
            segments=(*context.before, context.focus, *context.after),
            successor_ids=context.successor_ids,
        )
    )


def print_window(window: ExpandedWindow) -> None:
    """A stretch of one run loop, what was asked for marked, and how to read on."""
    from rich.text import Text

    loop = window.run_loop
    out().print(
        Text.assemble(
            (one_line(loop.goal, 100), "bold"),
            (f"\n{plain(loop.id)}  {loop.status}", "dim"),
            (f"  opened {day(loop.created_at.astimezone().isoformat())}\n", "dim"),
        )
    )
    focus = {segment.anchor.ref for segment in window.focus}
    for segment in window.segments:
        _print_segment(segment, focus=segment.anchor.ref in focus)
    out().print()
    if loop.predecessor_id is not None:
        _print_way("it took up an earlier one", loop.predecessor_id)
    for successor_id in window.successor_ids:
        _print_way("it was taken up again", successor_id)


def _print_way(words: str, run_loop_id: str) -> None:
    beginning = plain(str(AnchorRef(run_loop_id, 0, 0)))
    aside().print(f"{words}: rondo memory expand {beginning}", style="dim", soft_wrap=True)


def _print_segment(segment: Segment, *, focus: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    anchor = segment.anchor
    row = Table.grid(padding=(0, 1))
    row.add_column(width=1)
    row.add_column(width=8)
    row.add_column(ratio=1)
    row.add_row(
        Text("›" if focus else "", style="bold cyan"),
        Text(LABELS[anchor.segment_type], style="dim"),
        Text.assemble(
            (plain(segment.content).strip(), "bold" if focus else ""),
            (f"  {anchor.iteration_index}.{anchor.segment_index}", "dim"),
        ),
    )
    out().print(row)
