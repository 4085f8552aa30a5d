"""Long-term memory in a terminal: its size and its index, hits, stretches of run loops, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.cli.terminal.output import aside, one_line, out, plain
from service.cli.views.phrases import counted
from service.domain.anchors import (
    AnchorRef,
    ExpandedContext,
    ExpandedWindow,
    MemoryHit,
    MemoryNote,
    RememberedFact,
    SearchResult,
    Segment,
    SegmentType,
)
from service.domain.search_checks import FIRST, QuestionKind, SearchCheck
from service.wire.memory_bodies import Consolidation, IndexProgress, Stats

LABELS: dict[SegmentType, str] = {
    "user_message": "you",
    "reasoning": "thought",
    "tool_call": "tool",
    "tool_result": "result",
    "response": "rondo",
}
_MEASURED = ("cosine", "bm25", "lexical", "held", "rarity", "rerank")  # not parts of the sum
_MOST_ANCHORS = 5
_ASKED_BY: dict[QuestionKind, str] = {
    "answer": "by what was asked",
    "quote": "by some of its words",
}
_LONGEST_SHOWN = 600  # characters of a hit: `expand` shows the rest


def print_check(check: SearchCheck) -> None:
    """Whether memory finds what it holds, and whether it did so before."""
    share = 100 * check.found / check.asked
    out().print(
        f"Found {check.found} of {check.asked} ({share:.1f} %) among the first {FIRST} hits."
    )
    for kind, words in _ASKED_BY.items():
        hits, asked = check.by_kind[kind]
        if asked:
            out().print(f"  {kind:<6}  {hits:>4} of {asked}, {words}", style="dim")
    if check.earlier is None:
        aside().print(
            "This is the first check. The next one, after an upgrade or a change of the embedder,"
            " tells whether less is found.",
            style="dim",
        )
        return
    earlier = check.earlier
    out().print(
        f"On {earlier.at.astimezone():%Y-%m-%d %H:%M} (version {earlier.version}) {earlier.asked}"
        f" of these were asked, too: {earlier.lost} found then are not found now,"
        f" {earlier.gained} the other way round."
    )
    if earlier.embedder != check.embedder:
        was = one_line(earlier.embedder or "none", 60)
        out().print(f"The embedder was another one: {was}", style="dim")
    if earlier.finds_less:
        aside().print(
            "Memory finds less than it did; chance would hardly lose as many.", style="red"
        )
        for anchor in earlier.lost_anchors:
            out().print(f"  {plain(anchor)}")
        aside().print("Read one: rondo memory expand ANCHOR", style="dim")


def print_hits(result: SearchResult) -> None:
    """What a search found, best first."""
    if result.notice:
        aside().print(plain(result.notice), style="yellow")
    if result.notes:
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
    if hit.superseded_by is not None:
        out().print(f"  corrected by {plain(hit.superseded_by.text)}", style="yellow")
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


def print_facts(facts: Sequence[RememberedFact]) -> None:
    """Facts with their anchors, the newest first; what was corrected is dimmed."""
    from rich.text import Text

    for fact in facts:
        line = Text.assemble(
            (day(fact.anchor.timestamp.astimezone().isoformat())[:10], "dim"),
            "  ",
            (plain(fact.text), "dim" if fact.superseded_by else ""),
            (f"  {plain(fact.anchor.text)}", "cyan"),
        )
        if fact.superseded_by is not None:
            line.append(f"  corrected by {plain(fact.superseded_by.text)}", style="yellow")
        out().print(line, soft_wrap=True)
    if facts:
        words = "Correct one: rondo memory remember FACT --replaces ANCHOR"
    else:
        words = "There are none. Ask in a chat, or: rondo memory remember FACT"
    aside().print(words, style="dim")


def print_notes(notes: Sequence[MemoryNote], *, with_ids: bool = False) -> None:
    """Notes, each sentence with its anchors; nothing where there are none.

    Args:
        notes: what to show.
        with_ids: whether to show by which id each can be removed.
    """
    from rich.padding import Padding
    from rich.text import Text

    for note in notes:
        head = Text.assemble(("note on ", "dim"), (one_line(note.subject, 80), "bold"))
        head.append(f"  {note.kind}", style="dim")
        if with_ids:
            head.append(f"  {plain(note.id)}", style="dim")
        out().print(head, soft_wrap=True)
        for sentence in note.sentences:
            words = Text(plain(sentence.text))
            for anchor in sentence.anchors:
                words.append(f"  {plain(anchor.text)}", style="cyan")
            out().print(Padding(words, (0, 0, 0, 2), expand=False))
        out().print()


def print_consolidation(status: Consolidation) -> None:
    """How the writing of notes gets on, in a line or two."""
    if not status.enabled:
        words = "No notes are written: memory.consolidation.enabled is false."
        aside().print(words, style="dim")
        return
    most = "?" if status.max_tokens_per_day is None else f"{status.max_tokens_per_day:,}"
    aside().print(
        f"{status.state}; {status.tokens_today:,} of {most} tokens used today",
        style="dim",
    )
    if status.problem:
        aside().print(plain(status.problem), style="yellow")


def print_index(stats: Stats) -> None:
    """What ``/v1/memory/stats`` tells of the vector index: what is being done, and what is odd."""
    index = stats.index
    if stats.progress is not None:
        out().print(_progress_in_words(stats.progress))
    if index is None:
        return
    if index.place != "embedded":
        out().print(f"index: {plain(index.place)}", style="dim")
    if index.notice:
        aside().print(plain(index.notice), style="yellow")
    if index.scrub_pending:
        out().print("The index is still to be rid of what was forgotten.", style="yellow")
    if index.damaged:
        names = one_line(", ".join(index.damaged), 200)
        aside().print(
            f"The index was damaged and is built anew; {names} under chroma in the data folder"
            " can be deleted.",
            style="yellow",
        )


def _progress_in_words(progress: IndexProgress) -> str:
    """How far the index has come: ``embedding: 300 of 1,000 (42 a second, 17 s left)``."""
    words = f"{progress.doing}: {progress.done:,} of {progress.total:,} segments"
    if not progress.rate:
        return words
    left = progress.eta_seconds or 0.0
    time_left = f"{left / 60:,.0f} min" if left > 90 else f"{left:,.0f} s"
    return f"{words} ({progress.rate:,.0f} a second, {time_left} left)"


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
