"""From a phrase to a `Timing`; what is ambiguous is refused in words, with an example."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from pydantic import ValidationError

from service.domain.errors import InvalidInputError
from service.schedules.phrases.chinese_phrases import CHINESE
from service.schedules.phrases.chinese_phrases import FILLERS as CHINESE_FILLERS
from service.schedules.phrases.english_phrases import ENGLISH
from service.schedules.phrases.english_phrases import FILLERS as ENGLISH_FILLERS
from service.schedules.phrases.phrase_parts import (
    EXAMPLES,
    Clock,
    PartOfDay,
    Parts,
    calendar_day,
    take_apart,
)
from service.schedules.recurrence import LAST, Recurrence, Timing
from service.schedules.wall_clock import moment_at, shown_at, zone_of

LONGEST_PHRASE = 200
"""In characters."""
FURTHEST = timedelta(days=366 * 20)
"""How far off something can be."""
_FURTHEST_MONTHS = 20 * 12
_HAN = re.compile(r"[\u4e00-\u9fff]")
_AFTERNOON: tuple[PartOfDay, ...] = ("pm", "noon", "afternoon", "evening", "night")
_LATEST_UNCLEAR = 6
"""The hours from 1 to this one may be meant in the afternoon as well."""


def read_when(phrase: str, *, now: datetime, zone: str) -> Timing:
    """When something is to happen, as a person or a model says it.

    Args:
        phrase: in English or Chinese, or a date and time of ISO 8601.
        now: the moment at which it was said.
        zone: the IANA name of the time zone that is meant.

    Raises:
        InvalidInputError: it is not understood, ambiguous, or past; says so with an example.

    >>> from datetime import datetime, UTC
    >>> now = datetime(2026, 11, 24, 12, tzinfo=UTC)
    >>> read_when("tomorrow at 9", now=now, zone="Europe/Berlin").start.isoformat()
    '2026-11-25T08:00:00+00:00'
    """
    if len(phrase) > LONGEST_PHRASE:
        raise InvalidInputError("the time is told in too many words", advice=EXAMPLES)
    place = zone_of(zone)
    words = " ".join(unicodedata.normalize("NFKC", phrase).split())
    if not words:
        raise InvalidInputError("no time is told", advice=EXAMPLES)
    now = now.astimezone(UTC)
    try:
        said = datetime.fromisoformat(words)
    except ValueError:
        said = None
    if said is not None and re.search(r"[T ]\d", words):
        moment = said.astimezone(UTC) if said.tzinfo else moment_at(said, place)
        return _once(moment, zone, now)
    if _HAN.search(words):
        parts = take_apart(words.replace(" ", "").lower(), CHINESE, CHINESE_FILLERS)
    else:
        words = re.sub(r"\b([ap])\.?m\b\.?", r"\1m", words.lower())
        parts = take_apart(words, ENGLISH, ENGLISH_FILLERS)
    if parts.repeats:
        return _again_and_again(parts, zone, now)
    return _at_one_time(parts, zone, now)


def _once(moment: datetime, zone: str, now: datetime) -> Timing:
    if moment <= now:
        shown = shown_at(moment, zone_of(zone))
        raise InvalidInputError(
            f"{shown:%Y-%m-%d %H:%M} ({zone}) has passed", advice="Say a time that is to come."
        )
    if moment - now > FURTHEST:
        raise _too_far_off()
    return Timing(start=moment, zone=zone)


def _too_far_off() -> InvalidInputError:
    return InvalidInputError("that is too far off", advice="Say a time within twenty years.")


# --- again and again


def _again_and_again(parts: Parts, zone: str, now: datetime) -> Timing:
    if parts.offset or parts.day is not None or parts.day_offset is not None or parts.week:
        raise InvalidInputError(
            "it says both how often and a single day", advice="Say one of both. " + EXAMPLES
        )
    if parts.every < 1:
        raise InvalidInputError(
            f"every {parts.every} {parts.unit or 'week'}s: without time in between it cannot recur",
            advice="Say “every 5 minutes”, “every day at 8” or 每5分钟.",
        )
    unit = parts.unit
    if unit in ("minute", "hour"):
        if parts.clocks or parts.weekdays or parts.month_days or parts.part:
            raise InvalidInputError(
                f"what happens every {unit} has no days and times of its own",
                advice="Say “every 2 hours”, or the times: “every day at 9, 12 and 15:00”.",
            )
        recurrence = Recurrence(unit=unit, every=parts.every)
        return Timing.recurring(recurrence, zone=zone, now=now)
    times = _times(parts)
    if not times:
        raise InvalidInputError(
            "at what time is not said", advice="Add it, such as “every weekday at 8” or 每天八点."
        )
    try:
        recurrence = _by_calendar(parts, times)
    except ValidationError as error:
        raise InvalidInputError(
            f"which days are meant is not clear: {error.errors()[0]['msg']}", advice=EXAMPLES
        ) from error
    return Timing.recurring(recurrence, zone=zone, now=now)


def _by_calendar(parts: Parts, times: tuple[time, ...]) -> Recurrence:
    weekdays, days = tuple(sorted({*parts.weekdays})), tuple(sorted({*parts.month_days}))
    months = tuple(sorted({*parts.months}))
    if len(months) > 1 and len(days) > 1:
        raise InvalidInputError("it names several dates", advice="Make one of each.")
    if parts.nth is not None:
        fits = parts.unit == "month" and not (days or months)
        unit = parts.unit
    elif weekdays:
        fits, unit = parts.unit in (None, "week") and not (days or months), "week"
    elif months:
        fits, unit = parts.unit in (None, "year"), "year"
    elif days:
        fits, unit = parts.unit in (None, "month"), "month"
    else:
        fits, unit = parts.unit == "day", parts.unit
        if parts.unit in ("week", "month", "year"):
            example = {"week": "every Monday at 9", "month": "every first of the month at 9"}
            raise InvalidInputError(
                f"on which day of the {parts.unit} is not said",
                advice=f"Say “{example.get(parts.unit, 'every 24 December at 9')}”.",
            )
    if not fits or unit is None:
        raise InvalidInputError("the days that it names do not go together", advice=EXAMPLES)
    return Recurrence(
        every=parts.every,
        unit=unit,
        times=times,
        weekdays=weekdays,
        nth=parts.nth,
        month_days=days,
        months=months,
    )


# --- once


def _at_one_time(parts: Parts, zone: str, now: datetime) -> Timing:
    if parts.offset is not None:
        if parts.clocks or parts.day is not None or parts.day_offset is not None or parts.weekdays:
            raise InvalidInputError(
                "it says both how long from now and when", advice="Say one of both. " + EXAMPLES
            )
        return _once((now + parts.offset).replace(microsecond=0), zone, now)
    if (parts.month_offset or 0) > _FURTHEST_MONTHS:
        raise _too_far_off()
    wall = shown_at(now, zone_of(zone))
    day = _day(parts, wall.date())
    times = _times(parts)
    if len(times) > 1:
        raise InvalidInputError("it names several times", advice="Make one of each.")
    if not times:
        if not parts.at_this_time or parts.part is not None:
            raise InvalidInputError(
                "at what time is not said",
                advice="Add it, such as “tomorrow at 9”, “tonight at 8” or 明早九点.",
            )
        times = (wall.time().replace(second=0, microsecond=0),)
    if parts.midnight and day is not None:
        raise InvalidInputError(
            f"midnight of {day} could be its beginning or its end",
            advice=f"Say “{day} 00:00” or “{day} 23:59”.",
        )
    if day is not None:
        return _once(moment_at(datetime.combine(day, times[0]), zone_of(zone)), zone, now)
    due = moment_at(datetime.combine(wall.date(), times[0]), zone_of(zone))
    if due <= now:
        tomorrow = wall.date() + timedelta(days=1)
        due = moment_at(datetime.combine(tomorrow, times[0]), zone_of(zone))
    return _once(due, zone, now)


def _day(parts: Parts, today: date) -> date | None:
    """The one day that is meant; None where none is said."""
    days = [
        *([parts.day] if parts.day is not None else []),
        *([today + timedelta(days=parts.day_offset)] if parts.day_offset is not None else []),
        *([_months_on(today, parts.month_offset)] if parts.month_offset is not None else []),
        *([_next_date(parts.months, parts.month_days, today)] if parts.month_days else []),
        *(_next_weekday(each, parts, today) for each in parts.weekdays),
    ]
    if parts.nth is not None or len(set(days)) > 1 or (parts.week and not parts.weekdays):
        raise InvalidInputError(
            "which day is meant is not clear", advice="Say a date, such as “24 December at 9”."
        )
    return days[0] if days else None


def _months_on(today: date, months: int) -> date:
    year, month = divmod(today.year * 12 + today.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(today.day, last))


def _next_date(months: Iterable[int], days: Iterable[int], today: date) -> date:
    """The next such day of the year, or of any month."""
    named_months, named_days = list(months), list(days)
    if len(named_months) > 1 or len(named_days) > 1:
        raise InvalidInputError("it names several days", advice="Make one of each.")
    day = named_days[0]
    for ahead in range(9 * 12):
        first = _months_on(today.replace(day=1), ahead)
        if named_months and first.month != named_months[0]:
            continue
        last = calendar.monthrange(first.year, first.month)[1]
        number = last if day == LAST else day
        if 1 <= number <= last and (candidate := first.replace(day=number)) >= today:
            return candidate
    return calendar_day(today.year, named_months[0] if named_months else today.month, day)


def _next_weekday(weekday: int, parts: Parts, today: date) -> date:
    ahead = (weekday - today.weekday()) % 7 or 7
    coming = today + timedelta(days=ahead)
    monday = today - timedelta(days=today.weekday())
    in_this_week = monday + timedelta(days=weekday)
    if parts.week == "this" and in_this_week >= today:
        return in_this_week
    if parts.week == "next":
        in_next_week = in_this_week + timedelta(days=7)
        if coming != in_next_week:
            raise InvalidInputError(
                f"it could be {coming} or {in_next_week}",
                advice=f"Say the date, such as “{in_next_week} at 9”.",
            )
        return in_next_week
    return coming


# --- times of day


def _times(parts: Parts) -> tuple[time, ...]:
    return tuple(sorted({_time(each, parts.part) for each in parts.clocks}))


def _time(clock: Clock, part_of_day: PartOfDay | None) -> time:
    """The time of day that is meant.

    Raises:
        InvalidInputError: there is none such, or it could be two.
    """
    part, hour = clock.part or part_of_day, clock.hour
    if hour == 24 and clock.minute == 0 and part is None:
        hour = 0
    if hour > 23 or clock.minute > 59 or (part == "am" and hour > 12):
        raise _no_such(clock)
    if part is None:
        if 1 <= hour <= _LATEST_UNCLEAR and not clock.exact:
            raise InvalidInputError(
                f"{hour} could be in the morning or in the afternoon",
                advice=f"Say {hour}am, {hour}pm or {hour + 12}:00 (早上{hour}点, 下午{hour}点).",
            )
        return time(hour, clock.minute)
    if hour == 12 and part in ("evening", "night", "morning"):
        raise InvalidInputError(
            "12 of that part of a day is not clear", advice="Say 00:00, 12:00 or 23:59."
        )
    if part in _AFTERNOON:
        early_night = part == "night" and hour <= 5
        late_noon = part == "noon" and hour in (10, 11)
        return time(hour if hour >= 12 or early_night or late_noon else hour + 12, clock.minute)
    return time(0 if hour == 12 else hour, clock.minute)


def _no_such(clock: Clock) -> InvalidInputError:
    return InvalidInputError(
        f"there is no time {clock.hour}:{clock.minute:02}", advice="Say 9:30, 9pm or 21:00."
    )
