"""Conversations with checks: what is said, turn by turn, and what an answer must be like.

A file has one conversation a line, JSON; ``data/answers/README.md`` tells the form. A pattern may
name days: ``<today+1:%A>`` is tomorrow's weekday, so that a check knows what is right.

>>> with_days("<today:%Y>|<today-1:%-d>|星期<today+2:weekday>", date(2026, 3, 1))
'2026|28|星期二'
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from service.bench.parameters import BenchmarkError

_DAY = re.compile(r"<today(?P<days>[+-]\d{1,4})?:(?P<form>[^<>]+)>")
_WEEKDAYS = "一二三四五六日"
_CHINESE_MONTHS = (*"一二三四五六七八九十", "十一", "十二")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
Language = Literal["en", "zh"]
Expected = Literal["en", "zh", "any"]
"""In which language an answer is to be."""
_FORM = "data/answers/README.md tells the form."


def with_days(pattern: str, today: date) -> str:
    """A pattern with days in their places.

    Forms: ``%Y``, ``%A`` and ``%B`` (English in every locale), ``%-d`` and ``%-m`` (without a
    leading zero), and in Chinese ``weekday`` and ``month``, without 星期 and 月.
    """

    def written(match: re.Match[str]) -> str:
        day = today + timedelta(days=int(match["days"] or 0))
        parts = {
            "%Y": str(day.year),
            "%A": _NAMES[day.weekday()],
            "%B": _MONTHS[day.month - 1],
            "%-d": str(day.day),
            "%-m": str(day.month),
            "weekday": _WEEKDAYS[day.weekday()],
            "month": _CHINESE_MONTHS[day.month - 1],
        }
        text = match["form"]
        for form, value in parts.items():
            text = text.replace(form, value)
        return text

    return _DAY.sub(written, pattern)


def _expression(pattern: str) -> str:
    try:
        re.compile(with_days(pattern, date(2026, 1, 1)))
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return pattern


Expression = Annotated[str, Field(min_length=1), AfterValidator(_expression)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Check(_Form):
    """What an answer must be like. An empty one: no echo, no refusal, the right language."""

    any: tuple[Expression, ...] = ()
    """One of these must be found in it."""
    all: tuple[Expression, ...] = ()
    """Each of these must."""
    none: tuple[Expression, ...] = ()
    """None of these may."""
    language: Expected | None = None
    """None: the conversation's."""
    tool: str | None = None
    """The tool that must have been called, or, where null is written, that none may."""
    min_words: int = Field(default=0, ge=0)
    max_words: int | None = Field(default=None, ge=1)
    echo: bool = False
    """Whether the answer may be the message again."""
    refusal: bool = False
    """Whether it may say that the model cannot do that."""

    @property
    def is_about_tools(self) -> bool:
        """Whether anything is said of tools."""
        return "tool" in self.model_fields_set


class Turn(_Form):
    """What a person says, and what is expected of the answer."""

    say: str = Field(min_length=1)
    later: bool = False
    """Whether all that was said before it has ended, and is in long-term memory."""
    check: Check | None = None
    """None: the answer is not looked at."""


class Conversation(_Form):
    """What one person says to one daemon, from the first message to the last."""

    id: str = Field(min_length=1)
    language: Language
    category: str = Field(min_length=1)
    safety: bool = False
    """Whether a wrong answer can harm somebody."""
    turns: tuple[Turn, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_checked(self) -> Conversation:
        if not any(turn.check for turn in self.turns):
            raise ValueError("none of its turns has a check")
        if self.turns[0].later:
            raise ValueError("nothing was said before its first turn, which is `later`")
        return self


@dataclass(frozen=True, slots=True)
class Data:
    """All conversations that are to be had."""

    conversations: tuple[Conversation, ...]
    inputs: dict[str, str]
    """The SHA-256 of each file."""

    @property
    def checked(self) -> int:
        """How many answers are looked at."""
        return sum(turn.check is not None for each in self.conversations for turn in each.turns)


def read_data(places: Sequence[Path], only: Sequence[str] = ()) -> Data:
    """Read files, and folders of files.

    Args:
        places: each a ``.jsonl`` file or a folder that has some.
        only: categories; patterns do. None: all.

    Raises:
        BenchmarkError: there is none, a line is not of the form, two conversations have one id, or
            there is none of a wanted category.
    """
    conversations: dict[str, Conversation] = {}
    inputs: dict[str, str] = {}
    for path in [file for place in places for file in _files(place)]:
        raw = _bytes(path)
        inputs[str(path)] = hashlib.sha256(raw).hexdigest()
        for number, line in enumerate(raw.split(b"\n"), 1):
            if not line.strip():
                continue
            conversation = _conversation(line, f"{path.name}, line {number}")
            if conversation.id in conversations:
                raise BenchmarkError(
                    f"{path.name}, line {number}: there is another conversation {conversation.id}",
                    advice="Give each an id of its own.",
                )
            conversations[conversation.id] = conversation
    if not conversations:
        raise BenchmarkError("there is no conversation in the data", advice=_FORM)
    return Data(_wanted(tuple(conversations.values()), only), inputs)


def _files(place: Path) -> list[Path]:
    files = [place] if place.is_file() else sorted(place.glob("*.jsonl"))
    if not files:
        raise BenchmarkError(
            f"{place} is no file, and no folder with .jsonl files in it", advice=_FORM
        )
    return files


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchmarkError(f"{path} cannot be read: {error.strerror or error}") from error


def _conversation(line: bytes, where: str) -> Conversation:
    try:
        return Conversation.model_validate(json.loads(line))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        words = f"{place}: {message}" if place else message
        raise BenchmarkError(f"{where}: {words}", advice=_FORM) from error
    except (ValueError, RecursionError) as error:  # broken JSON, or bytes that are no UTF-8
        raise BenchmarkError(f"{where}: it is no JSON: {error}", advice=_FORM) from error


def _wanted(all_of_them: tuple[Conversation, ...], only: Sequence[str]) -> tuple[Conversation, ...]:
    categories = sorted({each.category for each in all_of_them})
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in categories):
            raise BenchmarkError(
                f"there is no category {pattern} in the data",
                advice=f"There are: {', '.join(categories)}.",
            )
    return tuple(
        each
        for each in all_of_them
        if not only or any(fnmatchcase(each.category, pattern) for pattern in only)
    )
