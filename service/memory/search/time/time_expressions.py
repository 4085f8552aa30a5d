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
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from service.memory.memory_tuning import DATES_READ, DATES_READ_IN, LATEST_FIT, TIME_FIT_LEAST_SPAN
from service.memory.search.query_terms import Asks
from service.memory.search.time.calendar_spans import Calendar, Portion, Rule, TimeRange
from service.memory.search.time.chinese_holidays import CHINESE_HOLIDAYS
from service.memory.search.time.chinese_time import CHINESE
from service.memory.search.time.english_holidays import ENGLISH_HOLIDAYS
from service.memory.search.time.english_time import ENGLISH
from service.memory.search.time.time_questions import asks_for_nothing


class Timeliness:
    """The time expressions of one question."""

    def __init__(self, query: str, now: datetime) -> None:
        """Read the question, asked at `now`."""
        text, stretches = _read(query, now)
        self.ranges = _ranges(stretches)
        """The stretches that it names."""
        behind = query[DATES_READ_IN:]
        self.rest = _without(text, [each for each in stretches if not each.named]) + behind
        """What it says besides; the name of a holiday is a topic, too."""
        # "Recently" is told by places: what was said last may be years old.
        exact = [] if all(each.vague for each in stretches) else self.ranges
        self._seconds = [
            (max(since.astimezone(UTC).timestamp(), 0.0), until.astimezone(UTC).timestamp())
            for since, until in exact
        ]
        self._latest = not exact and asks_for_latest(query)
        self._covered = [(each.since.timestamp(), each.until.timestamp()) for each in self.ranges]
        self.asks: Asks = "topic"
        """For a topic; or for whatever was said then, the newest of it where that goes on still."""
        if stretches and asks_for_nothing(_without(text, stretches) + behind):
            self.asks = "newest" if any(each.until >= now for each in self.ranges) else "oldest"
            if any(each.named for each in stretches):
                self.asks = "named time"

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

    def covers(self, moments: Iterable[float]) -> list[bool]:
        """Whether each moment lies in a stretch that is named; in seconds since 1970."""
        return [any(since <= at < until for since, until in self._covered) for at in moments]


def _nearness(at: float, since: float, until: float) -> float:
    away = max(since - at, at - until, 0.0)
    return max(0.0, 1.0 - away / max(until - since, TIME_FIT_LEAST_SPAN))


def _places(moments: list[float]) -> list[float]:
    """By rank and not by age: a minute and a year between two of them tell newer apart alike."""
    ordered = {at: place for place, at in enumerate(sorted(set(moments)))}
    last = max(len(ordered) - 1, 1)
    return [LATEST_FIT * ordered[at] / last if len(ordered) > 1 else 0.0 for at in moments]


_A_MONTH = timedelta(days=28)
_MOST_DISTANT = datetime(1900, 1, 1, tzinfo=UTC)

_LATEST = re.compile(
    r"\b(?:latest|newest|most\s+recent(?:ly)?|recent(?:ly)?|lately|just\s+now|last\s+time|"
    r"the\s+other\s+day|currently|nowadays|up[-\s]to[-\s]date)\b"
    r"|最近|最新|近来|近日|近期|上次|上一次|上回|刚才|刚刚|目前|现在",
    re.IGNORECASE,
)
_RECENTLY_DAYS = 30
_RECENTLY = re.compile(
    r"\b(?:recently|lately|these\s+days|nowadays)\b|最近(?!的|[\d一二两三四五六七八九十几半]|"
    r"一?次)|近来|近日|近期|这阵子|这段时间",
    re.IGNORECASE,
)
_AHEAD = 40
"""How many characters before an expression may say what is meant of it."""
_RULES: tuple[tuple[Rule, bool], ...] = (
    *((rule, False) for rule in (*ENGLISH, *CHINESE)),
    *((rule, True) for rule in (*ENGLISH_HOLIDAYS, *CHINESE_HOLIDAYS)),
)
"""And whether each is of holidays."""
_NOT_ONE_IN_THE_PAST = re.compile(
    r"\b(?:next|coming|upcoming|every|each)\s+$"
    r"|(?:明年|后年|来年|每逢?|每[年月周]|每个[月周]|下一?[个次]|下个?月|下一?个?(?:周|星期|礼拜)"
    r"|农历|阴历|旧历)的?$",
    re.IGNORECASE,
)
_WISHED = re.compile(r"\b(?:merry|happy|blessed)\s+$", re.IGNORECASE)
_PORTION = re.compile(
    r"\b(?:(?P<adjective>early|mid|late)(?:[\s-]+(?:in\s+)?|-)"
    r"|(?:the\s+)?(?P<noun>beginning|start|middle|end)\s+of\s+)(?:the\s+)?$",
    re.IGNORECASE,
)
_PORTIONS: dict[str, Portion] = {
    "early": "early",
    "mid": "mid",
    "middle": "mid",
    "late": "late",
    "beginning": "beginning",
    "start": "beginning",
    "end": "end",
}
_OF_A_YEAR = re.compile(r"(?:19|20)\d\d|\b(?:this|last|past)\b", re.IGNORECASE)
_TO = re.compile(r"\s*(?:-|–|—|~|to|until|till|through|and|到|至|和)\s*(?:the\s+)?", re.IGNORECASE)
_FROM = re.compile(r"\b(?:from|between)\s+(?:the\s+)?$|[从自]$", re.IGNORECASE)
_BETWEEN_BEHIND = re.compile(r"\s*之?间")
_SINCE = re.compile(r"\b(?:ever\s+)?since\s+(?:the\s+)?$|[自从]$", re.IGNORECASE)
_AFTER = re.compile(r"\bafter\s+(?:the\s+)?$", re.IGNORECASE)
_BEFORE = re.compile(
    r"\b(?:before|until|till|up\s+to|prior\s+to)\s+(?:the\s+)?$|(?:直到|截至|截止到?)$",
    re.IGNORECASE,
)
_SINCE_BEHIND = re.compile(r"(?:以来|起|开始)")
_AFTER_BEHIND = re.compile(r"(?:之后|以后|后(?![天来面台期端备续果悔半]))")
_BEFORE_BEHIND = re.compile(r"(?:之前|以前|为止|前(?![天年面后端台往几两些半任夫妻女男]))")


class _Match(NamedTuple):
    start: int
    end: int
    range: TimeRange
    vague: bool = False
    """Whether it is "recently", and no more."""
    named: bool = False
    """Whether it is a holiday, of which people speak by its name."""


def times(query: str, now: datetime) -> list[TimeRange]:
    """The stretches of time that a question names, in its order; at most a few.

    Args:
        query: in English or Chinese; only its beginning is read.
        now: the moment of asking; its time zone is that of the person.

    Raises:
        ValueError: `now` has no time zone.
    """
    return _ranges(_read(query, now)[1])


def asks_for_latest(query: str) -> bool:
    """Whether a question wants what was said last of several like it."""
    return _LATEST.search(unicodedata.normalize("NFKC", query[:DATES_READ_IN])) is not None


def _read(query: str, now: datetime) -> tuple[str, list[_Match]]:
    """A question's beginning, and its time expressions: those that say no more than "recently"
    only where there are no others."""
    if now.tzinfo is None:
        raise ValueError("`now` has no time zone")
    text = unicodedata.normalize("NFKC", query[:DATES_READ_IN])
    calendar = Calendar(now)
    whole = (_portion(text, each, calendar) for each in _apart(_all(text, calendar)))
    stretches = [_bounded(text, each, now) for each in _joined(text, [*whole])]
    return text, stretches or _recently(text, calendar)


def _ranges(stretches: Iterable[_Match]) -> list[TimeRange]:
    return list(dict.fromkeys(each.range for each in stretches))[:DATES_READ]


def _recently(text: str, calendar: Calendar) -> list[_Match]:
    recent = calendar.past(_RECENTLY_DAYS, "day")
    return [
        _Match(match.start(), match.end(), recent, vague=True) for match in _RECENTLY.finditer(text)
    ][:1]


def _without(text: str, stretches: Iterable[_Match]) -> str:
    """What a question says beside its time expressions."""
    end, rest = 0, list[str]()
    for each in stretches:
        rest.append(text[end : each.start])
        end = max(end, each.end)
    return " ".join((*rest, text[end:]))


def _all(text: str, calendar: Calendar) -> Iterator[_Match]:
    for (pattern, meaning), named in _RULES:
        for match in pattern.finditer(text):
            core = "core" if "core" in pattern.groupindex else 0
            ahead = _ahead(text, match.start(core))
            if _NOT_ONE_IN_THE_PAST.search(ahead) or (named and _WISHED.search(ahead)):
                continue
            try:
                meant = meaning(match, calendar)
            except (ValueError, OverflowError):  # 31 June; a million years ago
                continue
            for each in meant:
                yield _Match(match.start(core), match.end(core), each, named=named)


def _ahead(text: str, start: int) -> str:
    return text[max(0, start - _AHEAD) : start]


def _apart(stretches: Iterator[_Match]) -> list[_Match]:
    """Of those that overlap the longest, in the order of the text."""
    kept: list[_Match] = []
    by_length = sorted(set(stretches), key=lambda one: (one.start - one.end, one))
    for each in by_length:
        if all(
            each.end <= other.start
            or other.end <= each.start
            # One expression may mean two stretches: 5/7 in two countries.
            or (each.start, each.end) == (other.start, other.end)
            for other in kept
        ):
            kept.append(each)
    return sorted(kept, key=lambda one: one.start)


def _portion(text: str, stretch: _Match, calendar: Calendar) -> _Match:
    """What "early", "the end of" and the like before a stretch make of it."""
    ahead = _PORTION.search(_ahead(text, stretch.start))
    if ahead is None:
        return stretch
    which = _PORTIONS[(ahead["adjective"] or ahead["noun"]).lower()]
    part = calendar.portion(stretch.range, which)
    named = _OF_A_YEAR.search(text[stretch.start : stretch.end])
    if part.since > calendar.now and not named:  # late May, in the middle of May
        part = calendar.portion(calendar.a_year_before(stretch.range), which)
    return stretch._replace(start=stretch.start - len(ahead[0]), range=part)


def _joined(text: str, stretches: list[_Match]) -> list[_Match]:
    """With "from … to …", "between … and …", "…到…" made one."""
    joined: list[_Match] = []
    for each in stretches:
        before = joined[-1] if joined else None
        if before and before.end <= each.start:
            between = text[before.end : each.start]
            both = "and" in between.lower() or "和" in between
            bounds = (
                _FROM.search(_ahead(text, before.start)) is not None
                or _BETWEEN_BEHIND.match(text[each.end : each.end + 4]) is not None
            )
            since = _of_the_same_year(before.range.since, each.range)
            if _TO.fullmatch(between) and (bounds or not both) and since is not None:
                whole = TimeRange(since, each.range.until)
                named = before.named or each.named
                joined[-1] = _Match(before.start, each.end, whole, named=named)
                continue
        joined.append(each)
    return joined


def _of_the_same_year(since: datetime, last: TimeRange) -> datetime | None:
    """A beginning before its end: the year is often said once, "between 3 May and 9 May 2024".
    "Between October and July" begins in the year before."""
    if since >= last.until and (since.month, since.day) != (2, 29):
        since = since.replace(year=last.since.year)
        if since >= last.until and last.until - last.since >= _A_MONTH:
            since = since.replace(year=last.since.year - 1)
    return since if since < last.until else None


def _bounded(text: str, stretch: _Match, now: datetime) -> _Match:
    """What "since", "before" and "after" make of a stretch."""
    ahead, behind = _ahead(text, stretch.start), text[stretch.end : stretch.end + 4]
    since, until = stretch.range
    if (_AFTER.search(ahead) or _AFTER_BEHIND.match(behind)) and until < now:
        return stretch._replace(range=TimeRange(until, now))
    if (_SINCE.search(ahead) or _SINCE_BEHIND.match(behind)) and since < now:
        return stretch._replace(range=TimeRange(since, now))
    if _BEFORE.search(ahead) or _BEFORE_BEHIND.match(behind):
        return stretch._replace(range=TimeRange(_MOST_DISTANT, since))
    return stretch
