"""Long-term memory in a terminal: hits, the context of one, and how much there is."""

from __future__ import annotations

from collections.abc import Mapping

from service.cli.terminal.output import aside, one_line, out, plain
from service.cli.views.phrases import counted
from service.domain.anchors import MemoryHit, SearchResult, SegmentType
from service.wire.memory_bodies import Stats

LABELS: dict[SegmentType, str] = {
    "user_message": "you",
    "reasoning": "thought",
    "tool_call": "tool",
    "tool_result": "result",
    "response": "rondo",
}
_MEASURED = ("cosine", "bm25", "lexical", "held", "rarity", "rerank")  # not parts of the sum
_MOST_ANCHORS = 5
_LONGEST_SHOWN = 600  # characters of a hit: `expand` shows the rest


def print_hits(result: SearchResult) -> None:
    """What a search found, best first."""
    if result.notice:
        aside().print(plain(result.notice), style="yellow")
    if result.notes:
        from service.cli.views.note_views import print_notes

        print_notes(result.notes)
    if not result.hits:
        aside().print("Nothing was found.", style="dim")
        return
    if not result.related:
        aside().print(
            "Nothing seems to be about it. What comes nearest, though it hardly is:\n",
            style="yellow",
        )
    for place, hit in enumerate(result.hits):
        if place and place == result.related:
            aside().print("— below this line nothing seems to be about it —\n", style="dim")
        _print_hit(hit)
    aside().print("Read around one: rondo memory expand ANCHOR", style="dim")


def print_stats(stats: Stats) -> None:
    """How much is remembered."""
    out().print(f"{counted(stats.run_loops, 'run loop')} in {counted(stats.segments, 'segment')}")
    if stats.pending:
        waiting = counted(stats.pending, "segment")
        out().print(f"{waiting} wait to be embedded; words find them already")
    out().print(f"embedder: {one_line(stats.embedder or 'none loaded', 60)}", style="dim")
    if stats.notes:
        out().print(f"{counted(stats.notes, 'note')}; see `rondo memory notes`")
    if stats.notes_problem:
        aside().print(f"No notes are written: {plain(stats.notes_problem)}", style="yellow")
    for warning in filter(None, (stats.notice, stats.problem)):
        aside().print(plain(warning), style="yellow")


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
        for line in _explained(hit.scores, out().width - 2):
            out().print(f"  {plain(line)}", style="dim", soft_wrap=True)
    for label, anchors in (("again in", hit.duplicates), ("belongs to", hit.partners)):
        if anchors:
            shown = ", ".join(plain(each.text) for each in anchors[:_MOST_ANCHORS])
            more = len(anchors) - _MOST_ANCHORS
            rest = f" and {more} more" if more > 0 else ""
            out().print(f"  {label} {shown}{rest}", style="dim", soft_wrap=True)
    out().print()


def _explained(scores: Mapping[str, float], width: int) -> list[str]:
    """The parts of a score, and behind a bar what the indexes said; folded between them."""
    parts = [f"{name} {part:+.2f}" for name, part in scores.items() if name not in _MEASURED]
    measured = [f"{name} {scores[name]:.3f}" for name in _MEASURED if name in scores]
    if parts and measured:
        measured[0] = f"|  {measured[0]}"
    lines: list[str] = []
    for part in parts + measured:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines
