"""A command group whose subcommands are imported only when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Where a subcommand is found, and what the overview says of it."""

    name: str
    place: str
    """``module:attribute``."""
    summary: str


class LazyGroup(click.Group):
    """A group that knows the names and summaries of its subcommands without importing them."""

    def __init__(self, *, name: str, summary: str, subcommands: Sequence[Subcommand]) -> None:
        super().__init__(name=name, help=summary, no_args_is_help=True)
        self._subcommands = {each.name: each for each in subcommands}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they were given."""
        return [*self._subcommands, *super().list_commands(ctx)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that is meant.

        Raises:
            NoSuchCommand: there is none of that name; says which is like it.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            # click looks for similar names among the imported commands only
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=names, ctx=ctx
            ) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, imported now; None when there is none of that name."""
        subcommand = self._subcommands.get(cmd_name)
        if subcommand is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = subcommand.place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{subcommand.place} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.summary) for each in self._subcommands.values()])
