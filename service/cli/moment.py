"""Dates as people type them."""

from __future__ import annotations

from datetime import datetime

import click


class Moment(click.ParamType[str]):
    """A day or a moment, in local time where no zone is named; given on as ISO 8601."""

    name = "date"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Read it, or fail with words."""
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no date. Write 2026-03-31 or 2026-03-31T17:00.", param, ctx)
        return at.astimezone().isoformat()
