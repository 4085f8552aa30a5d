"""Skills, their versions, and what a script writes, in a terminal."""

from __future__ import annotations

import json
import sys
from datetime import datetime

from service.cli.terminal.output import aside, one_line, out, plain, short_id, visible
from service.cli.views.phrases import counted
from service.domain.conversation.tool_definitions import OutputStream
from service.wire.script_bodies import (
    ChangedSkill,
    RunnableScript,
    Scripts,
    SkillDetails,
    SkillHistory,
    SkillVersion,
)

_AUTHORS = {"person": "you", "model": "the assistant", "unknown": "by hand"}


def print_scripts(listing: Scripts) -> None:
    """What there is, and what cannot be used."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for each in listing.scripts:
        table.add_row(
            Text(plain(each.name), style="bold"),
            Text(f"of {plain(each.project)}" if each.project else each.kind, style="dim"),
            Text(one_line(each.description, 200)),
        )
    if listing.scripts:
        out().print(table)
    elif not listing.unusable:
        aside().print("There are none yet. `rondo scripts add FOLDER` adds one.", style="dim")
    for broken in listing.unusable:
        words = f"{plain(broken.name)} cannot be used: {plain(broken.reason)}"
        aside().print(words, style="yellow", soft_wrap=True)


def print_skill(skill: SkillDetails) -> None:
    """A skill: its text, its scripts, its files."""
    out().print(plain(skill.text).rstrip("\n"), soft_wrap=True)
    for script in skill.scripts:
        out().print()
        _print_script(script)
    if len(skill.files) > 1:
        names = ", ".join(plain(each) for each in skill.files)
        out().print(f"\nFiles: {names}", style="dim", soft_wrap=True)


def _print_script(script: RunnableScript) -> None:
    out().print(plain(script.name), style="bold", soft_wrap=True)
    if script.problem:
        out().print(f"  cannot be run: {plain(script.problem)}", style="yellow", soft_wrap=True)
        return
    effect = script.effect.replace("_", " ")
    out().print(f"  {plain(script.description) or '(no description)'} · {effect}", soft_wrap=True)
    if script.parameters is not None:
        schema = plain(json.dumps(script.parameters, ensure_ascii=False))
        out().print(f"  parameters: {schema}", style="dim", soft_wrap=True)


def print_history(history: SkillHistory) -> None:
    """The versions, newest first."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for version in reversed(history.versions):
        table.add_row(
            Text(str(version.version), style="bold"),
            Text(f"{_local(version):%Y-%m-%d %H:%M}"),
            Text(_author(version), style="dim"),
            Text(counted(len(version.files), "file") if version.files else "removed"),
            Text(version.digest[:12], style="dim"),
        )
    out().print(table)


def _local(version: SkillVersion) -> datetime:
    return version.at.astimezone()


def _author(version: SkillVersion) -> str:
    where = f" in {short_id(version.run_loop_id)}" if version.run_loop_id else ""
    return f"{_AUTHORS[version.author]}{where}"


def print_difference(text: str) -> None:
    """What differs between versions: what is added green, what goes red."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines():
        out().print(visible(line), style=styles.get(line[:1], ""), soft_wrap=True)


def print_change(change: ChangedSkill) -> None:
    """Which version a change has made."""
    if change.difference:
        words = f"{plain(change.name)} is version {change.version} now."
        aside().print(words, style="green")
    else:
        aside().print(f"{plain(change.name)} is as it was.", style="dim")


def write_output(text: str, stream: OutputStream) -> None:
    """Write what a script writes, as it comes. A terminal is not driven by it; what is piped
    elsewhere goes there as it is."""
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.write(plain(text) if target.isatty() else text)
    target.flush()
