"""What commands take from a person: ``--json``, dates as people type them, names with values."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pydantic import JsonValue

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""``--json`` of every command that shows something."""


class DateParameter(click.ParamType[str]):
    """A date, a time, or words such as "last week" or 上周; given on as ISO 8601.

    Local time where no zone is named. Of a stretch of time its beginning counts, as a date alone
    stands for the beginning of that day.
    """

    name = "date"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Read it, or fail with words."""
        given = str(value).strip()
        try:
            return datetime.fromisoformat(given).astimezone().isoformat()
        except (ValueError, OverflowError):
            pass
        # Imported late: most commands are given no words.
        from service.cli.terminal.output import aside, plain
        from service.memory.search.time.time_expressions import times

        spans = times(given, datetime.now().astimezone())
        if len(spans) != 1:
            self.fail(
                f"{given!r} is no date. Write 2026-03-31, 2026-03-31T17:00, or words such as"
                ' "yesterday", "last week" or 上周.',
                param,
                ctx,
            )
        since = spans[0].since.astimezone()
        aside().print(f"“{plain(given)}” begins {since:%Y-%m-%d %H:%M}.", style="dim")
        return since.isoformat()


def check_bounds(since: str | None, until: str | None) -> None:
    """Refuse a stretch of time that ends before it begins: nothing could ever be in it.

    Raises:
        click.UsageError: it does.
    """
    if since is None or until is None:
        return
    begin, end = datetime.fromisoformat(since), datetime.fromisoformat(until)
    if begin > end:
        raise click.UsageError(
            f"--since ({begin:%Y-%m-%d %H:%M}) is later than --until ({end:%Y-%m-%d %H:%M})."
            " Exchange them."
        )


class NameAndValue(click.ParamType["tuple[str, JsonValue]"]):
    """``name=value``; the value is JSON where it can be read so, else a text."""

    name = "name=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, JsonValue]:
        """Read it, or fail with words."""
        name, equals, written = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        try:
            return name, json.loads(written)
        except ValueError:
            return name, written
