"""Moments, as clients give them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator


def _iso(given: object) -> object:
    """Only ISO 8601: a bare number could be seconds, milliseconds, or a mistake."""
    try:
        return datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None


def _moment(at: object) -> object:
    if not isinstance(at, datetime):
        raise ValueError("write a date or a moment such as 2026-03-31 or 2026-03-31T17:00:00Z")
    return at


def with_zone(at: datetime) -> datetime:
    """A moment given without a time zone is meant in UTC.

    Raises:
        ValueError: it is before the year 1 or after the year 9999, taken to UTC.
    """
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    try:
        at.astimezone(UTC)
    except OverflowError:
        raise ValueError("no calendar goes there") from None
    return at


Moment = Annotated[
    datetime, AfterValidator(with_zone), BeforeValidator(_moment), BeforeValidator(_iso)
]
"""A moment from a client: ISO 8601; UTC where it names no time zone."""
