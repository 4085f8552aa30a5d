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
_WIDTH = 70
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
    answers_go = with_answers or with_all_that_saw
    _print_who_saw(preview, answers_go=answers_go, all_go=with_all_that_saw)
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
        f"{'goes' if each.goes else 'stays'}  {one_line(f'{each.subject}: {each.text}', _WIDTH)}"
        for each in preview.notes
    ]
    _list("Notes that rest on it:", notes)
    repeated = [
        f"{plain(each.run_loop_id)}:{each.iteration}  {_SAID_BY[each.by]}"
        f"  {one_line(each.words, _WIDTH)}"
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
        f" {counted(gone.approvals, 'standing approval')};"
        f" {counted(gone.rewritten, 'event')} left without their words",
        soft_wrap=True,
    )
    if gone.journal_copies:
        out().print(
            f"  deleted {counted(gone.journal_copies, 'file')} with the journal as it was before"
            " its form changed",
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


def _places(places: Sequence[PlaceThatSaw]) -> list[str]:
    return [
        f"{plain(each.run_loop_id)}{'' if each.iteration is None else f':{each.iteration}'}"
        f"  {', '.join(_PARTS[part] for part in each.parts)}: {one_line(each.words, _WIDTH)}"
        for each in places
    ]


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
