"""Chinese time expressions: patterns, and what each means on a calendar. Holidays stand apart."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from service.memory.search.time.calendar_spans import (
    Calendar,
    Match,
    Portion,
    Rule,
    TimeRange,
    day_or_part,
)
from service.memory.search.time.chinese_words import (
    BEFORE_A_DAY,
    DAY,
    DAYS_BACK,
    MONTH,
    NEXT_IS_A_DAY,
    NO_DIGIT_BEFORE,
    NO_TIMES,
    NOT_A_MONTH,
    NOT_AHEAD,
    NUMBER,
    ON_WEEKDAY,
    PART,
    PARTS,
    SEASONS,
    SMALL,
    UNITS,
    WEEK,
    WEEK_UNITS,
    WEEKDAYS,
    YEAR,
    YEAR_BACK,
    number,
    rule,
    year_of,
)

_PORTIONS: dict[str, Portion] = {
    "初": "early",
    "上旬": "early",
    "中旬": "mid",
    "下旬": "late",
    "底": "late",
    "末": "late",
}
_MONTHS_OF_EDGE = {"初": (1, 2), "中": (6, 2), "底": (11, 2), "末": (11, 2)}
_SOME = ("几", "幾", "数")


def _part(match: Match, day: TimeRange, calendar: Calendar) -> Sequence[TimeRange]:
    return day_or_part(match, day, calendar, PARTS)


def _day_back(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    back = timedelta(days=DAYS_BACK[match["back"]])
    return _part(match, calendar.days(calendar.today - back), calendar)


def _ago(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    unit = _unit(match)
    if match["count"] in _SOME:
        return [calendar.some_ago(2, 5, unit)]
    return [calendar.ago(number(match["count"]), unit)]


def _past(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.past(number(match["count"]), _unit(match))]


def _unit(match: Match) -> str:
    return UNITS[match["unit"].lstrip("个個")]


def _week_offset(match: Match) -> int:
    return -match["which"].count("上")


def _week(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return [calendar.week(_week_offset(match))]


def _week_day(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    day = calendar.weekday(WEEKDAYS[match["weekday"]], _week_offset(match))
    return _part(match, day, calendar)


def _weekend(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    offset = _week_offset(match)
    return [calendar.weekend(offset) if offset else calendar.latest_weekend()]


def _bare_week_day(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    day = calendar.latest_weekday(WEEKDAYS[match["weekday"]], or_today=True)
    return _part(match, day, calendar)


def _month_back(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    month = calendar.month_from_now(_week_offset(match))
    if match["day"]:
        return [calendar.days(month.since.date().replace(day=number(match["day"])))]
    return [_of_a_month(match, month, calendar)]


def _of_a_month(match: Match, month: TimeRange, calendar: Calendar) -> TimeRange:
    third = match.groupdict().get("third")
    return calendar.portion(month, _PORTIONS[third]) if third else month


def _in_year(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """The year, or its season, month, day, beginning, half, quarter or end."""
    year = year_of(match, calendar)
    if year is None:
        return []
    if match["season"]:
        return [calendar.season(SEASONS[match["season"]], year)]
    if match["month"] and match["day"]:
        day = calendar.days(date(year, number(match["month"]), number(match["day"])))
        return _part(match, day, calendar)
    if match["month"]:
        return [_of_a_month(match, calendar.month(year, number(match["month"])), calendar)]
    if match["half"]:
        return [calendar.month(year, 1 if match["half"] == "上" else 7, 6)]
    if match["quarter"]:
        return [calendar.month(year, number(match["quarter"]) * 3 - 2, 3)]
    if match["edge"]:
        return [calendar.month(year, *_MONTHS_OF_EDGE[match["edge"][-1]])]
    return [calendar.year(year)]


def _date(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    month = number(match["month"])
    if match["day"]:
        return _part(match, calendar.latest_day(month, number(match["day"])), calendar)
    stretch = _of_a_month(match, calendar.latest_month(month), calendar)
    if stretch.since > calendar.now:  # 5月下旬, in the middle of May
        stretch = _of_a_month(match, calendar.month(calendar.today.year - 1, month), calendar)
    return [stretch]


def _days(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """5月3日到7日."""
    month, year = number(match["month"]), year_of(match, calendar)
    if year is None:
        first = calendar.latest_day(month, number(match["first"]))
    else:
        first = calendar.days(date(year, month, number(match["first"])))
    last = calendar.days(first.since.date().replace(day=number(match["day"])))
    return [TimeRange(first.since, last.until)] if first < last else []


def _months(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """3到5月."""
    first, last, year = number(match["first"]), number(match["month"]), year_of(match, calendar)
    if not 1 <= first < last <= 12:
        return []
    if year is None:
        year = calendar.latest_month(first).since.year
    return [calendar.month(year, first, last - first + 1)]


def _day_alone(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    return _part(match, calendar.latest_day_of_month(number(match["day"])), calendar)


def _edge_alone(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    """年底, 月初, 下旬: the last that has begun."""
    edge = match["edge"]
    if edge.startswith("年"):
        months = _MONTHS_OF_EDGE[edge[-1]]
        stretch = calendar.month(calendar.today.year, *months)
        return [calendar.a_year_before(stretch) if stretch.since > calendar.now else stretch]
    portion = _PORTIONS[edge.removeprefix("月")]
    stretch = calendar.portion(calendar.month_from_now(0), portion)
    if stretch.since > calendar.now:
        stretch = calendar.portion(calendar.month_from_now(-1), portion)
    return [stretch]


def _half_alone(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    stretch = calendar.month(calendar.today.year, 1 if match["half"] == "上" else 7, 6)
    return [calendar.a_year_before(stretch) if stretch.since > calendar.now else stretch]


def _season_alone(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    present = match["which"] in "这這"
    return [calendar.latest_season(SEASONS[match["season"]], or_present=present)]


def _this_time(match: Match, calendar: Calendar) -> Sequence[TimeRange]:
    unit = {"月": "month", "年": "year"}.get(match["unit"], "week")
    stretch = calendar.this_time(unit)
    return [calendar.a_year_before(stretch) if match["last"] == "前" else stretch]


_THIRD = r"(?:(?P<third>初|底|末|上旬|中旬|下旬))?"
_IN_YEAR = (
    rf"(?:的?(?:(?P<season>[春夏秋冬])(?:天|季)?|{MONTH}(?:{DAY}(?:的?{PART})?{ON_WEEKDAY}|{_THIRD})"
    r"|(?P<half>[上下])半年|第?(?P<quarter>[一二三四1-4])季度"
    r"|(?P<edge>年?[初底末](?![一二三四五六七八九十])|年中(?![国國央学期文间秋考]))))?"
)
_WHICH = r"(?P<which>上+|本|这|這)"
_TO = r"(?:到|至|-|–|~)"
_OF_YEAR = rf"(?:(?:{YEAR}|{YEAR_BACK})的?)?"
_NOT_IN_ANOTHER = r"(?<![\d一二两三四五六七八九十个個今去明后前昨本上下这這每几半年月])"

CHINESE: tuple[Rule, ...] = (
    rule(rf"(?P<back>大前|今|昨|前)[天日](?:的?{PART})?", _day_back),
    rule(r"(?P<back>今|昨|前)(?P<part>早|晨|晚|夜)上?", _day_back),
    rule(
        # 三月前 is before March, and 2023年前 before that year.
        rf"(?<!\d)(?!(?:19|20)\d\d年)(?P<count>{NUMBER})多?(?!月)(?P<unit>{WEEK_UNITS})(?:之|以)?前"
        rf"{NOT_AHEAD}",
        _ago,
    ),
    rule(r"半年(?:之|以)?前", lambda match, calendar: [calendar.ago(6, "month")]),
    rule(r"半个?月(?:之|以)?前", lambda match, calendar: [calendar.ago(2, "week")]),
    rule(r"半个?小时(?:之|以)?前", lambda match, calendar: [calendar.ago(30, "minute")]),
    rule(r"前(?:几|幾|些|两|兩)天", lambda match, calendar: [calendar.before_today(7)]),
    rule(r"前些日子", lambda match, calendar: [calendar.before_today(30)]),
    rule(r"前一?(?:阵子?|段时间)", lambda match, calendar: [calendar.before_today(60)]),
    rule(
        rf"(?:最近|过去|過去|近|这|這)(?:的)?(?P<count>{NUMBER})(?P<unit>{WEEK_UNITS})(?!前)",
        _past,
    ),
    rule(rf"{_WHICH}{WEEK}(?!末)", _week),
    rule(rf"{_WHICH}{WEEK}(?P<weekday>[一二三四五六日天]){NO_TIMES}(?:的?{PART})?", _week_day),
    rule(rf"{_WHICH}个?(?:周|週)末", _weekend),
    rule(r"(?<![每个個上本这這下])(?P<which>)(?:周|週)末", _weekend),
    rule(
        r"(?<![每上下本这這一二两兩三四五六七八九十几幾半\d个個])(?:周|週|星期|礼拜|禮拜)"
        rf"(?P<weekday>[一二三四五六日天]){NO_TIMES}(?:的?{PART})?",
        _bare_week_day,
    ),
    rule(rf"{_WHICH}个?個?月份?(?:{DAY}|{_THIRD})", _month_back),
    rule(
        r"(?P<last>上个?|上個|去|前)(?P<unit>周|週|星期|月|年)的?(?:(?:这个?|這個?)(?:时候|時候|时间)"
        r"|这会儿|此时|同期)",
        _this_time,
    ),
    rule(rf"{YEAR_BACK}{_IN_YEAR}", _in_year),
    rule(rf"{YEAR}{_IN_YEAR}", _in_year),
    rule(
        rf"{NO_DIGIT_BEFORE}(?:(?:周|星期)[一二三四五六日天][,\s]*)?{MONTH}{DAY}(?P<third>)?"
        rf"(?:的?{PART})?{ON_WEEKDAY}",
        _date,
    ),
    rule(
        rf"{NO_DIGIT_BEFORE}{MONTH}(?!天){NOT_A_MONTH}{_THIRD}(?P<day>)?",
        _date,
    ),
    rule(
        rf"{NO_DIGIT_BEFORE}{_OF_YEAR}{MONTH}(?P<first>{SMALL})[日号號]?{_TO}{DAY}",
        _days,
    ),
    rule(
        rf"{NO_DIGIT_BEFORE}{_OF_YEAR}(?P<first>{SMALL})(?:月份?)?{_TO}{MONTH}(?![\d一二三四五六七八九十])",
        _months,
    ),
    rule(
        rf"{BEFORE_A_DAY}(?P<day>{SMALL})[号號](?:的?{PART})?{NEXT_IS_A_DAY}",
        _day_alone,
    ),
    rule(
        rf"{_NOT_IN_ANOTHER}(?P<edge>[年月][初底末]|[上中下]旬)(?![一二三四五六七八九十])",
        _edge_alone,
    ),
    rule(rf"{_NOT_IN_ANOTHER}(?P<half>[上下])半年", _half_alone),
    rule(r"(?P<which>这|這|上)一?[个個]?(?P<season>[春夏秋冬])[天季]", _season_alone),
)
