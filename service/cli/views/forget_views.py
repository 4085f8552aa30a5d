"""Forgetting in a terminal: what would go, and what has gone."""

from __future__ import annotations

from collections.abc import Sequence

from service.cli.terminal.output import aside, one_line, out, plain
from service.cli.views.memory_views import day
from service.cli.views.phrases import counted
from service.domain.forgetting_terms import (
    CopyKind,
    ForgetPreview,
    ForgetReceipt,
    PartOfPlace,
    PlaceThatSaw,
    RunLoopMention,
)

_SHOWN = 20  # of each kind; `--json` has all
_WORDS_AT_MOST, _WORDS_AT_LEAST = 70, 40  # terminal cells beside what a row says of a place
_KINDS: dict[CopyKind, str] = {
    "fork": "forked from it",
    "moved": "a message was moved from there",
    "recalled": "was given it from memory",
    "quoted": "the router quoted it",
    "answer": "tells it",
    "saw": "only saw it",
}
_PARTS: dict[PartOfPlace, str] = {
    "answer": "answer",
    "call": "call of a tool",
    "result": "result of a tool",
    "question": "question to you",
    "approval": "your yes",
    "summary": "summary",
    "problem": "problem",
    "memory": "piece of memory",
    "import": "import",
}
_SAID_BY: dict[str, str] = {"person": "you said it", "import": "imported", "other": "was said"}


def print_preview(
    preview: ForgetPreview, *, with_answers: bool = False, with_all_that_saw: bool = False
) -> None:
    """What would be forgotten.

    Args:
        preview: as it was given.
        with_answers: whether what tells the words goes as well.
        with_all_that_saw: whether all goes that was said by those who had seen them.
    """
    loops = [
        (
            f"{plain(each.id)}  {day(each.created_at.astimezone().isoformat())}"
            f"  {counted(each.iterations, 'iteration')}",
            each.goal,
        )
        for each in preview.run_loops
    ]
    _list("Whole run loops:", loops)
    single = [
        (
            f"{plain(each.run_loop_id)}:{each.iteration}  {day(each.at.astimezone().isoformat())}",
            each.words,
        )
        for each in preview.iterations
    ]
    _list("Single iterations:", single)
    copies = [
        (
            f"{plain(each.run_loop_id)}  {counted(each.places, 'place')}"
            f"  {', '.join(_KINDS[kind] for kind in each.kinds)}:",
            each.goal,
        )
        for each in preview.copies
    ]
    _list("Copies elsewhere, which go too:", copies)
    answers_go = with_answers or with_all_that_saw
    _print_who_saw(preview, answers_go=answers_go, all_go=with_all_that_saw)
    schedules = [
        (f"{plain(each.id)}  {'goes' if each.goes else 'stays: rondo schedules remove'}", each.what)
        for each in preview.schedules
    ]
    _list("Schedules:", schedules)
    _list("Active:", _mentions(preview.active))
    if preview.notice:
        aside().print(plain(preview.notice), style="yellow")
    else:
        events = counted(preview.events, "event")
        out().print(f"{events} of the journal would lose their words, and all that follows them.")


def _print_who_saw(preview: ForgetPreview, *, answers_go: bool, all_go: bool) -> None:
    """Where else it is spoken of: by who had seen it, and by others."""
    _list(
        "Places that tell it, which go too:"
        if answers_go
        else "Places that tell it, and stay; --with-answers takes them:",
        _places(preview.answers),
    )
    if preview.answers and not answers_go:
        aside().print(
            "Once it is forgotten, nothing tells any more that these had seen it.", style="yellow"
        )
    _list(
        "Places that only saw it, which go too:"
        if all_go
        else "Places that only saw it, and stay; --with-all-that-saw takes them:",
        _places(preview.saw),
    )
    notes = [
        ("goes" if each.goes else "stays", f"{each.subject}: {each.text}") for each in preview.notes
    ]
    _list("Notes that rest on it:", notes)
    repeated = [
        (f"{plain(each.run_loop_id)}:{each.iteration}  {_SAID_BY[each.by]}", each.words)
        for each in preview.repeated
    ]
    _list("The same words stand here as well, and stay; name them to forget them:", repeated)
    _list("These may speak of it in words of their own, which stay:", _mentions(preview.related))


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
        f" {counted(gone.approvals, 'standing approval')},"
        f" {counted(gone.schedules, 'schedule')};"
        f" {counted(gone.rewritten, 'event')} left without their words",
        soft_wrap=True,
    )
    if gone.journal_copies:
        out().print(
            f"  deleted {counted(gone.journal_copies, 'file')} with the journal as it was before"
            " its form changed",
            soft_wrap=True,
        )
    if gone.sent_files:
        out().print(f"  deleted {counted(gone.sent_files, 'file')} that came with messages")
    if gone.file_changes:
        out().print(
            f"  deleted what files held before {counted(gone.file_changes, 'change')} of them",
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


_Row = tuple[str, str]
"""What is said of a place, and the words that stand there or tell what it is."""


def _places(places: Sequence[PlaceThatSaw]) -> list[_Row]:
    return [
        (
            f"{plain(each.run_loop_id)}{'' if each.iteration is None else f':{each.iteration}'}"
            f"  {', '.join(_PARTS[part] for part in each.parts)}:",
            each.words,
        )
        for each in places
    ]


def _mentions(run_loops: Sequence[RunLoopMention]) -> list[_Row]:
    return [(f"{plain(each.id)}  {each.status}", each.goal) for each in run_loops]


def _list(title: str, rows: Sequence[_Row]) -> None:
    if not rows:
        return
    out().print(title, style="bold")
    width = out().width if out().is_terminal else 1000  # a file has room for all of it
    for place, words in rows[:_SHOWN]:
        for line in _lines(place, words, width):
            out().print(line, soft_wrap=True)
    if len(rows) > _SHOWN:
        out().print(f"  … and {len(rows) - _SHOWN} more", style="dim")


def _lines(place: str, words: str, width: int) -> list[str]:
    """A row in a terminal of `width` cells: the words on a line of their own where it is narrow.

    >>> _lines("home:0  answer:", "The code is 4711, if you must know.", 80)
    ['  home:0  answer: The code is 4711, if you must know.']
    >>> _lines("home:0  answer, result of a tool:", "The code is 4711, if you must know.", 40)
    ['  home:0  answer, result of a tool:', '    The code is 4711, if you must know.']
    """
    gap = " " if place.endswith(":") else "  "
    room = width - len(f"  {place}{gap}")
    if room >= _WORDS_AT_LEAST:
        return [f"  {place}{gap}{one_line(words, min(room, _WORDS_AT_MOST))}"]
    return [f"  {place}", f"    {one_line(words, min(width - 4, _WORDS_AT_MOST))}"]
