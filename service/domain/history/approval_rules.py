"""What a yes that is remembered covers, once a person has narrowed it down.

A rule can be narrowed to the very arguments of a call, and to a time. In doubt it covers nothing: a
call whose arguments cannot be read, a time that is over, a clock that stands before the yes, and
whatever a later version has narrowed a rule by that this one does not know.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool

from service.domain.run_loops import Timestamp


class Narrowing(BaseModel):
    """By what a rule is narrower than its scope."""

    model_config = ConfigDict(frozen=True)

    arguments: StrictBool = Field(default=False, exclude_if=lambda value: not value)
    """To the very arguments of the call that was asked about."""
    until: AwareDatetime | None = Field(default=None, exclude_if=lambda value: value is None)
    """To the time before this moment."""

    @property
    def is_none(self) -> bool:
        """Whether it narrows nothing."""
        return not self.arguments and self.until is None


class NarrowedRule(BaseModel):
    """A scope, and by what a yes is narrower than that.

    >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    >>> rule = NarrowedRule(scope="pay", arguments='{"to": "Ada"}', since=noon)
    >>> [rule.covers(text, noon) for text in ('{"to":"Ada"}', '{"to": "Eve"}', "{")]
    [True, False, False]
    """

    model_config = ConfigDict(frozen=True, extra="allow")  # see `covers`

    scope: str
    """See `service.tools.approval.ApprovalPolicy.scope`."""
    arguments: str | None = None
    """Covered are calls with these alone, as `exact_arguments` writes them; None: with any."""
    since: Timestamp
    """When the yes was given."""
    until: Timestamp | None = None
    """It is over at this moment; None: it has no end."""

    @property
    def narrowing(self) -> Narrowing:
        """By what it is narrower."""
        return Narrowing(arguments=self.arguments is not None, until=self.until)

    def covers(self, arguments: str, now: datetime) -> bool:
        """Whether a call in its scope is covered, by the arguments that it runs with.

        A rule with an end covers nothing before it was given either: where the clock was set back,
        nobody knows how much of its time has passed.
        """
        if self.model_extra or (self.until is not None and not self.since <= now < self.until):
            return False
        return self.arguments is None or exact_arguments(arguments) == self.arguments

    def is_over(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.until is not None and now >= self.until


def exact_arguments(text: str) -> str | None:
    """The arguments of a call in one form, whatever their order and spaces; None where they are no
    JSON object that can be kept.

    As text, since to Python true is 1 and 1 is 1.0.

    >>> exact_arguments('{"b": 1.0, "a": true}')
    '{"a": true, "b": 1.0}'
    """
    try:
        value: Any = json.loads(text, strict=False) if text.strip() else {}
        written = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        written.encode()
    except (ValueError, RecursionError):  # half a surrogate pair is a ValueError
        return None
    return written if isinstance(value, dict) else None


def rule_in_words(
    scope: str, tool: str, narrowing: Narrowing | None = None, *, arguments: str = ""
) -> str:
    """What a rule covers.

    Args:
        scope: as it is kept.
        tool: that it is about.
        narrowing: by what it is narrower; None: by nothing.
        arguments: to be shown where it is narrowed to them; empty: they stand beside it.

    >>> rule_in_words("pay", "pay")
    'every call of pay'
    >>> rule_in_words(f"run_script a.sh sha256:{'0f' * 32}", "run_script")
    'run_script a.sh, as it is now (sha256:0f0f0f0f…)'
    >>> rule_in_words("pay", "pay", Narrowing(arguments=True), arguments='{"to": "Ada"}')
    'pay, with just these arguments: {"to": "Ada"}'
    """
    narrowing = narrowing or Narrowing()
    words, digest, number = scope.partition(" sha256:")
    if digest:
        words += f", as it is now (sha256:{number[:8]}…)"
    elif scope == tool and not narrowing.arguments:
        words = f"every call of {tool}"
    if narrowing.arguments:
        words += ", with just these arguments" + (f": {arguments}" if arguments else "")
    if narrowing.until is not None:
        words += f", until {narrowing.until.astimezone():%Y-%m-%d %H:%M %Z}".rstrip()
    return words


def in_milliseconds(moment: datetime) -> datetime:
    """A moment as it is written into JSON, and read again."""
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
