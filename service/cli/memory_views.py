"""Long-term memory in a terminal: hits, the context of one, and how much there is."""

from __future__ import annotations

from service.cli.client import Json
from service.cli.output import aside, one_line, out, plain
from service.cli.turn_view import counted
from service.domain.anchors import ExpandedContext, MemoryHit, SearchResult, Segment, SegmentType

LABELS: dict[SegmentType, str] = {
    "user_message": "you",
    "reasoning": "thought",
    "tool_call": "tool",
    "tool_result": "result",
    "response": "rondo",
}
_LONGEST_SHOWN = 600  # characters of a hit: `expand` shows the rest


def print_hits(result: SearchResult) -> None:
    """What a search found, best first."""
    if result.notice:
        aside().print(plain(result.notice), style="yellow")
    if not result.hits:
        aside().print("Nothing was found.", style="dim")
        return
    for hit in result.hits:
        _print_hit(hit)
    aside().print("Read around one: rondo memory expand ANCHOR", style="dim")


def print_context(context: ExpandedContext) -> None:
    """A segment and what stood around it."""
    from rich.text import Text

    loop = context.run_loop
    out().print(
        Text.assemble(
            (one_line(loop.goal, 100), "bold"),
            (f"\n{plain(loop.id)}  {loop.status}", "dim"),
            (f"  opened {day(loop.created_at.astimezone().isoformat())}\n", "dim"),
        )
    )
    for segment in (*context.before, context.focus, *context.after):
        _print_segment(segment, focus=segment is context.focus)


def print_stats(stats: Json) -> None:
    """How much is remembered."""
    loops, segments, pending = (
        value if isinstance(value := stats.get(name), int) else 0
        for name in ("run_loops", "segments", "pending")
    )
    out().print(f"{counted(loops, 'run loop')} in {counted(segments, 'segment')}")
    if pending:
        out().print(f"{counted(pending, 'segment')} wait to be embedded; words find them already")
    embedder = one_line(str(stats.get("embedder") or "none loaded"), 60)
    out().print(f"embedder: {embedder}", style="dim")
    if stats.get("problem"):
        aside().print(plain(str(stats["problem"])), style="yellow")


def day(iso: str) -> str:
    """The date and minute of a moment."""
    return iso[:16].replace("T", " ")


def _print_hit(hit: MemoryHit) -> None:
    from rich.padding import Padding
    from rich.text import Text

    anchor = hit.anchor
    out().print(
        Text.assemble(
            (plain(anchor.text), "cyan"),
            (f"  {day(anchor.timestamp.astimezone().isoformat())}", "dim"),
            (f"  {LABELS[anchor.segment_type]}", ""),
            (f"  {hit.relevance:.2f}", "green" if hit.relevance >= 0.5 else "dim"),
        ),
        soft_wrap=True,
    )
    words = plain(hit.content).strip()
    if len(words) > _LONGEST_SHOWN:
        words = words[:_LONGEST_SHOWN].rstrip() + " …"
    out().print(Padding(Text(words), (0, 0, 0, 2), expand=False))
    if hit.scores:
        parts = "  ".join(f"{name} {score:.3f}" for name, score in hit.scores.items())
        out().print(f"  {plain(parts)}", style="dim")
    out().print()


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
