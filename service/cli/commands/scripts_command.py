"""`rondo scripts`: skills and single scripts, their versions, and running one by hand.

The commands work on the folders themselves: they need no daemon, and one that runs sees what they
change at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from service.cli.commands.command_options import json_option

if TYPE_CHECKING:
    from service.tools.skills.skill_changes import Change, SkillChanges
    from service.tools.skills.skill_repository import SkillRepository

_Name = click.argument("name")


@click.group(invoke_without_command=True)
@click.pass_context
def scripts(ctx: click.Context) -> None:
    """Your skills and scripts, and their versions. Without a command, lists them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_scripts)


@scripts.command("list")
@json_option
def list_scripts(as_json: bool = False) -> None:
    """List them, and what cannot be used, with the reason."""
    from service.cli.terminal.output import print_json
    from service.cli.views.script_views import print_scripts
    from service.tools.skills.skill_listing import listed_scripts

    listing = listed_scripts(_repository())
    if as_json:
        print_json(listing.model_dump(mode="json"))
    else:
        print_scripts(listing)


@scripts.command()
@_Name
@click.argument("file", default="")
@json_option
def show(name: str, file: str, as_json: bool) -> None:
    """Show NAME, or one FILE of it."""
    from service.cli.terminal.output import out, plain, print_json
    from service.cli.views.script_views import print_skill
    from service.tools.skills.skill_listing import skill_details
    from service.wire.script_bodies import SkillFile

    repository = _repository()
    if file:
        data = repository.read(repository.place(name), file).decode("utf-8", "replace")
        if as_json:
            print_json(SkillFile(name=name, file=file, text=data).model_dump(mode="json"))
        else:
            out().print(plain(data).rstrip("\n"), soft_wrap=True)
        return
    details = skill_details(repository, name)
    if as_json:
        print_json(details.model_dump(mode="json"))
    else:
        print_skill(details)


@scripts.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--replace", is_flag=True, help="In the place of one of the same name.")
@json_option
def add(source: Path, replace: bool, as_json: bool) -> None:
    """Add a copy of SOURCE: the folder of a skill, with a SKILL.md; or a script."""
    from service.tools.skills.skill_changes import files_of

    path = source.absolute()  # a link keeps its own name
    if path.name in ("", ".."):
        path = source.resolve()
    changes = _changes()
    change = changes.added(
        path.name,
        files_of(path),
        kind="skill" if path.is_dir() else "script",
        replace=replace,
    )
    _make(changes, change, as_json=as_json)


@scripts.command()
@_Name
@click.argument("file", default="")
@click.option(
    "--from",
    "source",
    type=click.File("rb"),
    help="Take the words from this file (- for standard input) instead of opening an editor.",
)
@json_option
def edit(name: str, file: str, source: BinaryIO | None, as_json: bool) -> None:
    """Edit NAME, or one FILE of it, in $EDITOR. A skill that there is none of is begun."""
    from service.domain.errors import InvalidInputError, NotFoundError
    from service.tools.skills.skill_form import SKILL_FILE

    changes = _changes()
    try:
        place = changes.repository.place(name)
        path = file or (SKILL_FILE if place.kind == "skill" else name)
        now = changes.repository.read(place, path).decode("utf-8")
    except NotFoundError:
        path = file or SKILL_FILE
        now = _BEGINNING.format(name=name) if path == SKILL_FILE else ""
    except UnicodeDecodeError:
        raise InvalidInputError(f"{file} is no text in UTF-8") from None
    if source is not None:
        try:
            text = source.read().decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInputError("the words are not UTF-8") from None
    else:
        edited = click.edit(now, extension=Path(path).suffix or ".txt")
        text = now if edited is None else edited
    _make(changes, changes.written(name, path, text), as_json=as_json)


_MOST_LINES_SHOWN = 400
"""Of a difference, after a change that a person has made themselves."""
_BEGINNING = """---
name: {name}
description: What it is for, and when to use it.
---

How it is done, step by step.
"""


@scripts.command(context_settings={"ignore_unknown_options": True})
@_Name
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--input", "stdin", help="What it reads from standard input; - for ours.")
@click.option("--parameters", help="JSON, in place of arguments, for a script that names some.")
def run(name: str, arguments: tuple[str, ...], stdin: str | None, parameters: str | None) -> None:
    """Run NAME, or of a skill SKILL/FILE, with ARGUMENTS; here, in the sandbox of the settings.

    What it writes is shown as it comes. Exits with 1 where the script fails.
    """
    import anyio

    from service.cli.terminal.output import aside
    from service.cli.views.script_views import write_output
    from service.config import load_settings
    from service.domain.errors import ConflictError
    from service.tools.protocol import ToolFailure
    from service.tools.scripts.output_text import as_text
    from service.tools.skills.skill_listing import script_to_run
    from service.tools.skills.skill_runner import ScriptCall
    from service.tools.skills.skill_settings import repository_of, runner_of

    settings = load_settings()
    repository = repository_of(settings)
    skill, _, inner = name.partition("/")
    script = script_to_run(repository, skill, inner)
    words = sys.stdin.read() if stdin == "-" else stdin or ""
    call = ScriptCall(script, arguments, words, _object(parameters))
    runner = runner_of(settings, repository)

    async def work() -> int:
        # The person who types this has named it: that is their yes.
        ended = await runner.run(call, covers=lambda version: True, on_output=as_text(write_output))
        if ended.exceeded:
            aside().print(f"It was ended: it {ended.exceeded}.", style="red")
        elif ended.outcome.timed_out:
            aside().print(f"It was stopped after {ended.seconds:g} seconds.", style="red")
        elif ended.outcome.exit_code:
            code = ended.outcome.exit_code
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            aside().print(f"It ended with {how}.", style="red")
        return ended.outcome.exit_code

    try:
        code = anyio.run(work)
    except ToolFailure as failure:
        raise ConflictError(str(failure), title="It was not run") from failure
    if code:
        raise SystemExit(1)


@scripts.command()
@_Name
@click.option("--from", "before", type=int, help="Show what differs from this version.")
@click.option("--to", "after", type=int, help="To this one; without it, to what is there now.")
@json_option
def history(name: str, before: int | None, after: int | None, as_json: bool) -> None:
    """List the versions of NAME, newest first; or show what differs between two."""
    from service.cli.terminal.output import print_json
    from service.cli.views.script_views import print_difference, print_history
    from service.tools.skills.skill_listing import skill_history
    from service.wire.script_bodies import SkillDifference

    repository = _repository()
    if before is None:
        if after is not None:
            raise click.UsageError("--to needs --from.")
        versions = skill_history(repository, name)
        if as_json:
            print_json(versions.model_dump(mode="json"))
        else:
            print_history(versions)
        return
    words = repository.compared(name, before, after)
    if as_json:
        print_json(SkillDifference(name=name, difference=words).model_dump(mode="json"))
    else:
        print_difference(words)


@scripts.command()
@_Name
@click.argument("version", type=int)
@json_option
def revert(name: str, version: int, as_json: bool) -> None:
    """Bring VERSION of NAME back, as a new version. What was removed comes back so, too."""
    changes = _changes()
    _make(changes, changes.reverted(name, version), as_json=as_json)


@scripts.command()
@_Name
@click.option("--versions", is_flag=True, help="Its versions, too: for good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(name: str, versions: bool, yes: bool, as_json: bool) -> None:
    """Remove NAME. Its versions stay, and `rondo scripts revert` brings it back."""
    from service.cli.terminal.output import aside, plain, print_json
    from service.tools.skills.skill_changes import By
    from service.wire.script_bodies import RemovedSkill

    changes = _changes()
    number, count = None, 0
    if versions:
        if not yes:
            words = f"Remove {plain(name)} and all its versions? They cannot be brought back."
            click.confirm(words, abort=True, err=True)
        count = changes.purge(name)
    else:
        number = changes.make(changes.removed(name), By()).number
    if as_json:
        gone = RemovedSkill(name=name, version=number, versions_removed=count)
        print_json(gone.model_dump(mode="json"))
    else:
        kept = f" `rondo scripts revert {plain(name)} VERSION` brings it back."
        aside().print(f"{plain(name)} is removed.{'' if versions else kept}", style="green")


def _make(changes: SkillChanges, change: Change, *, as_json: bool) -> None:
    from service.cli.terminal.output import print_json
    from service.cli.views.difference_view import show_difference
    from service.cli.views.script_views import print_change
    from service.tools.skills.skill_changes import By
    from service.tools.skills.skill_listing import changed_skill

    made = changed_skill(change, changes.make(change, By()))
    if as_json:
        print_json(made.model_dump(mode="json"))
    else:
        if made.difference:
            show_difference(made.difference, most_lines=_MOST_LINES_SHOWN)
        print_change(made)


def _object(text: str | None) -> Mapping[str, Any]:
    from service.cli.chat.argument_editor import read_object
    from service.domain.errors import InvalidInputError

    if text is None:
        return {}
    try:
        return read_object(text)
    except ValueError as error:
        raise InvalidInputError(f"what --parameters was given is not JSON: {error}") from error


def _repository() -> SkillRepository:
    from service.config import load_settings
    from service.tools.skills.skill_settings import repository_of

    return repository_of(load_settings())


def _changes() -> SkillChanges:
    from service.tools.skills.skill_changes import SkillChanges

    return SkillChanges(_repository())
