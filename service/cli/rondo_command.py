"""The `rondo` command: which subcommands there are, and how errors are told.

Subcommands are imported only when they are called: `rondo --help` is quick.

Exit codes: 0 done; 1 an error, told in words on standard error; 2 wrong usage; 3 a run loop waits
for a person; 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import click

from service import __version__
from service.cli.terminal.standard_streams import as_utf8


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


SUBCOMMANDS = (
    Subcommand("serve", "service.cli.commands.serve_command:serve", "Start the daemon."),
    Subcommand(
        "setup", "service.cli.commands.setup_command:setup", "Find a model, try it, use it."
    ),
    Subcommand("chat", "service.cli.commands.chat_commands:chat", "Talk with the assistant."),
    Subcommand(
        "send", "service.cli.commands.chat_commands:send", "Send one message, print the answer."
    ),
    Subcommand(
        "loops", "service.cli.commands.loops_command:loops", "List, watch and steer run loops."
    ),
    Subcommand(
        "approvals", "service.cli.commands.approvals_command:approvals", "What runs without asking."
    ),
    Subcommand("files", "service.cli.commands.files_command:files", "Take back changes of files."),
    Subcommand(
        "enhance",
        "service.cli.commands.chat_commands:enhance",
        "Have answers looked over once more.",
    ),
    Subcommand(
        "memory", "service.cli.commands.memory_command:memory", "Search what is remembered."
    ),
    Subcommand(
        "schedules",
        "service.cli.commands.schedules_command:schedules",
        "Reminders, and what is done at a time.",
    ),
    Subcommand("tools", "service.cli.commands.tools_command:tools", "What the assistant can do."),
    Subcommand(
        "scripts",
        "service.cli.commands.scripts_command:scripts",
        "Your skills and scripts, and their versions.",
    ),
    Subcommand(
        "usage", "service.cli.commands.usage_command:usage", "Show tokens and what they cost."
    ),
    Subcommand("audit", "service.cli.commands.audit_command:audit", "Show what tools have done."),
    Subcommand(
        "models", "service.cli.commands.models_command:models", "List and fetch local models."
    ),
    Subcommand(
        "config", "service.cli.commands.config_command:config", "Print the effective settings."
    ),
    Subcommand(
        "doctor", "service.cli.commands.doctor_command:doctor", "Check the setup; say what to do."
    ),
    Subcommand("bench", "service.bench.bench_command:bench", "Run benchmarks."),
)


class Failure(click.ClickException):
    """An error of Rondo, as the terminal shows it: what happened, and what to do."""

    def __init__(self, title: str, detail: str, advice: str) -> None:
        super().__init__(f"{title}: {detail}" if detail else title)
        self._advice = advice

    def show(self, file: IO[str] | None = None) -> None:
        """Write it to standard error."""
        click.secho(_ended(self.message), err=True, file=file, fg="red")
        if self._advice:
            click.echo(_ended(self._advice), err=True, file=file)


def _ended(words: str) -> str:
    return words if words.endswith((".", "!", "?", "。")) else f"{words}."


class RondoGroup(LazyGroup):
    """The top of the tree: turns Rondo's errors into words and an exit code."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand; one whose package is not installed does not exist."""
        try:
            return super().get_command(ctx, cmd_name)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.startswith("service.bench"):
                raise click.UsageError("The benchmarks are not installed.") from None
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments, if they are text."""
        encoding = sys.getfilesystemencoding()
        try:
            args = [as_utf8(each, encoding) for each in args]
        except UnicodeError:
            raise click.UsageError("This text is not UTF-8 (an argument of the command).") from None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # the return type is click's
        """Run a command.

        Raises:
            click.ClickException: the command failed; carries the words and the exit code.
        """
        try:
            return super().invoke(ctx)
        except Exception as error:
            # Imported late: `--help` has no need of it.
            from service.domain.errors import RondoError

            if isinstance(error, RondoError):
                raise Failure(error.title, error.detail, error.advice) from error
            raise


rondo = RondoGroup(
    name="rondo",
    subcommands=SUBCOMMANDS,
    summary="A personal assistant that works on many tasks at once, and remembers all of them.",
)
click.version_option(__version__, prog_name="rondo")(rondo)
