"""What is told of a schedule that has come due, in the language of its words."""

from __future__ import annotations

from service.schedules.due import Due
from service.schedules.timing_words import Language, language_of, moment_in_words, timing_in_words


def due_in_words(due: Due) -> str:
    """What the run loop of a reminder says, or that of anything that was missed.

    The words of the schedule are the person's own, and stand as they are.
    """
    schedule = due.schedule
    language = language_of(schedule.what)
    zone = schedule.timing.zone
    at = moment_in_words(due.newest.due, zone, language)
    if due.newest.reason == "late":
        if language == "zh":
            return f"迟到的提醒：{schedule.what}\n\n原定时间是 {at}，那时我没有在运行。"
        return (
            f"Reminder, late: {schedule.what}\n\nIt was due on {at}; I was not running then, or"
            " the machine slept."
        )
    if due.runs:
        return _reminder(schedule.what, due, zone, language)
    return _missed(due, at, language)


def _reminder(what: str, due: Due, zone: str, language: Language) -> str:
    words = f"提醒：{what}" if language == "zh" else f"Reminder: {what}"
    if due.first_missed is None:
        return words
    first = moment_in_words(due.first_missed, zone, language)
    if language == "zh":
        missed = f"在此之前错过了 {due.missed_before} 次（第一次是 {first}）"
        return f"{words}\n\n{missed}，那时我没有在运行。"
    times = _times(due.missed_before)
    return (
        f"{words}\n\nBefore this it was missed {times}, first on {first}: I was not running then."
    )


def _missed(due: Due, at: str, language: Language) -> str:
    count = due.missed_before + 1
    what = due.schedule.what
    is_task = due.schedule.kind == "task"
    if language == "zh":
        words = f"我没有在运行时，这件事错过了 {count} 次，最近一次是 {at}：{what}"
        if not is_task:
            return words
        return f"{words}\n\n当时没有做。现在要做的话：`rondo schedules run {due.schedule.id}`。"
    last = at if count == 1 else f"last on {at}"
    words = f"While I was not running, this came due {_times(count)}, {last}: {what}"
    if not is_task:
        return words
    return f"{words}\n\nIt was not done. `rondo schedules run {due.schedule.id}` does it now."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def reason_in_words(due: Due) -> str:
    """Why a run loop was opened, for whoever asks how its message came there."""
    return f"it was scheduled for this time: {timing_in_words(due.schedule.timing)}"
