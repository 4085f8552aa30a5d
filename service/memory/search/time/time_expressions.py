"""When a question speaks of: its time expressions, in English and Chinese, as stretches of time.

Rules over words, no model: what is found is used to prefer what was said then, and never to leave
anything out, so a rule that misses or misleads costs little. What is ambiguous ("on Tuesday",
"in May") is taken as past, for memory knows no future. How well the moment of a piece fits is a
preference, never a condition: what was said in May may be written in June.

>>> from datetime import UTC, datetime
>>> now = datetime(2026, 5, 20, 9, 30, tzinfo=UTC)
>>> [str(found.since.date()) for found in times("What did Ann say last Tuesday?", now)]
['2026-05-19']
>>> [str(found.since.date()) for found in times("去年夏天我们去了哪里？", now)]
['2025-06-01']
>>> times("You may march on, second to none.", now)
[]
>>> [asks_for_latest(query) for query in ("the latest plan", "上次说的餐厅", "a plan")]
[True, True, False]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from service.memory.memory_tuning import DATES_READ, DATES_READ_IN, LATEST_FIT, TIME_FIT_LEAST_SPAN
from service.memory.search.time.calendar_spans import Calendar, TimeRange
from service.memory.search.time.chinese_time import CHINESE
from service.memory.search.time.english_time import ENGLISH


class Timeliness:
    """The time expressions of one question."""

    def __init__(self, query: str, now: datetime) -> None:
        """Read the question, asked at `now`."""
        self.ranges = times(query, now)
        """The stretches that it names."""
        self._seconds = [
            (max(since.astimezone(UTC).timestamp(), 0.0), until.astimezone(UTC).timestamp())
            for since, until in self.ranges
        ]
        self._latest = not self.ranges and asks_for_latest(query)

    def fits(self, moments: Iterable[float]) -> list[float]:
        """How well each moment fits, 0 to 1.

        Within a stretch that is named it is 1, and falls to 0 over a distance of the stretch's own
        length: "last week" says little of the week before, "in 2022" much of January 2023. Where
        the latest is asked for, it is the place between the oldest and the newest of them, at most
        `LATEST_FIT`.

        Args:
            moments: seconds since 1970.
        """
        moments = list(moments)
        if self._latest:
            return _places(moments)
        return [
            max((_nearness(at, *each) for each in self._seconds), default=0.0) for at in moments
        ]


def _nearness(at: float, since: float, until: float) -> float:
    away = max(since - at, at - until, 0.0)
    return max(0.0, 1.0 - away / max(until - since, TIME_FIT_LEAST_SPAN))


def _places(moments: list[float]) -> list[float]:
    """By rank and not by age: a minute and a year between two of them tell newer apart alike."""
    ordered = {at: place for place, at in enumerate(sorted(set(moments)))}
    last = max(len(ordered) - 1, 1)
    return [LATEST_FIT * ordered[at] / last if len(ordered) > 1 else 0.0 for at in moments]


_MOST_DISTANT = datetime(1900, 1, 1, tzinfo=UTC)

_LATEST = re.compile(
    r"\b(?:latest|newest|most\s+recent(?:ly)?|recent(?:ly)?|lately|just\s+now|last\s+time|"
    r"the\s+other\s+day|currently|nowadays|up[-\s]to[-\s]date)\b"
    r"|最近|最新|近来|近日|近期|上次|上一次|上回|刚才|刚刚|目前|现在",
    re.IGNORECASE,
)
_TO = re.compile(r"\s*(?:-|–|—|~|to|until|till|through|and|到|至|和)\s*(?:the\s+)?", re.IGNORECASE)
_FROM = re.compile(r"\b(?:from|between)\s+(?:the\s+)?$|[从自]$", re.IGNORECASE)
_SINCE = re.compile(r"\b(?:ever\s+)?since\s+(?:the\s+)?$|[自从]$", re.IGNORECASE)
_AFTER = re.compile(r"\bafter\s+(?:the\s+)?$", re.IGNORECASE)
_BEFORE = re.compile(r"\b(?:before|until|till|up\s+to|prior\s+to)\s+(?:the\s+)?$", re.IGNORECASE)
_SINCE_BEHIND = re.compile(r"(?:以来|起|开始)")
_AFTER_BEHIND = re.compile(r"(?:之后|以后)")
_BEFORE_BEHIND = re.compile(r"(?:之前|以前)")


class _Match(NamedTuple):
    start: int
    end: int
    range: TimeRange


def times(query: str, now: datetime) -> list[TimeRange]:
    """The stretches of time that a question names, in its order; at most a few.

    Args:
        query: in English or Chinese; only its beginning is read.
        now: the moment of asking; its time zone is that of the person.

    Raises:
        ValueError: `now` has no time zone.
    """
    if now.tzinfo is None:
        raise ValueError("`now` has no time zone")
    text = unicodedata.normalize("NFKC", query[:DATES_READ_IN])
    stretches = _joined(text, _apart(_all(text, Calendar(now))))
    return list(dict.fromkeys(_bounded(text, each, now) for each in stretches))[:DATES_READ]


def asks_for_latest(query: str) -> bool:
    """Whether a question wants what was said last of several like it."""
    return _LATEST.search(unicodedata.normalize("NFKC", query[:DATES_READ_IN])) is not None


def _all(text: str, calendar: Calendar) -> Iterator[_Match]:
    for pattern, meaning in (*ENGLISH, *CHINESE):
        for match in pattern.finditer(text):
            try:
                meant = meaning(match, calendar)
            except (ValueError, OverflowError):  # 31 June; a million years ago
                continue
            core = "core" if "core" in pattern.groupindex else 0
            for each in meant:
                yield _Match(match.start(core), match.end(core), each)


def _apart(stretches: Iterator[_Match]) -> list[_Match]:
    """Of those that overlap the longest, in the order of the text."""
    kept: list[_Match] = []
    for each in sorted(stretches, key=lambda one: (one.start - one.end, one.start)):
        if all(
            each.end <= other.start
            or other.end <= each.start
            # One expression may mean two stretches: 5/7 in two countries.
            or (each.start, each.end) == (other.start, other.end)
            for other in kept
        ):
            kept.append(each)
    return sorted(kept, key=lambda one: one.start)


def _joined(text: str, stretches: list[_Match]) -> list[_Match]:
    """With "from … to …", "between … and …", "…到…" made one."""
    joined: list[_Match] = []
    for each in stretches:
        before = joined[-1] if joined else None
        if before and before.end <= each.start:
            between = text[before.end : each.start]
            both = "and" in between.lower() or "和" in between
            from_there = _FROM.search(text[: before.start]) is not None
            since = _of_the_same_year(before.range.since, each.range)
            if _TO.fullmatch(between) and (from_there or not both) and since is not None:
                whole = TimeRange(since, each.range.until)
                joined[-1] = _Match(before.start, each.end, whole)
                continue
        joined.append(each)
    return joined


def _of_the_same_year(since: datetime, last: TimeRange) -> datetime | None:
    """A beginning before its end: the year is often said once, "between 3 May and 9 May 2024"."""
    if since >= last.until and (since.month, since.day) != (2, 29):
        since = since.replace(year=last.since.year)
    return since if since < last.until else None


def _bounded(text: str, stretch: _Match, now: datetime) -> TimeRange:
    """What "since", "before" and "after" make of a stretch."""
    ahead, behind = text[: stretch.start], text[stretch.end : stretch.end + 4]
    since, until = stretch.range
    if (_AFTER.search(ahead) or _AFTER_BEHIND.match(behind)) and until < now:
        return TimeRange(until, now)
    if (_SINCE.search(ahead) or _SINCE_BEHIND.match(behind)) and since < now:
        return TimeRange(since, now)
    if _BEFORE.search(ahead) or _BEFORE_BEHIND.match(behind):
        return TimeRange(_MOST_DISTANT, since)
    return stretch.range
