"""Notes in a terminal, apart from the words that they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from service.cli.terminal.output import aside, one_line, out, plain
from service.domain.anchors import MemoryNote
from service.wire.memory_bodies import Consolidation


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
