"""Notes as the model is told of them: apart from the words, and with what they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.anchors import MemoryNote
from service.domain.conversation.quoting import in_one_line

_HEAD = (
    "Notes on this. A model wrote them from the words at their [anchors], and it is the words that"
    " count: look there with memory_expand before you rely on a note."
)


def notes_in_words(notes: Sequence[MemoryNote]) -> str:
    """The notes as a paragraph of their own; nothing where there are none."""
    lines = [f"\n\n{_HEAD}"] if notes else []
    for note in notes:
        subject = in_one_line(note.subject)
        lines.append(f"{subject} ({note.kind}), written {note.written_at:%Y-%m-%d}:")
        for sentence in note.sentences:
            cited = " ".join(f"[{anchor}]" for anchor in sentence.anchors)
            lines.append(f"- {in_one_line(sentence.text)} {cited}")
    return "\n".join(lines)
