"""Moments, as clients give them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator


def with_zone(at: datetime) -> datetime:
    """A moment given without a time zone is meant in UTC."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(with_zone)]
"""A moment from a client: ISO 8601; UTC where it names no time zone."""
