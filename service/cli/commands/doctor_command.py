"""`rondo doctor`: what works, what does not, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import json_option

if TYPE_CHECKING:
    from service.cli.doctor_checks import Finding, Verdict
    from service.config import Settings

_MARKS: dict[Verdict, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "note": ("note", "yellow"),
    "broken": ("broken", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the setup, and how to look at it."""

    name: str
    look: Callable[[Settings], Finding]


def _all_checks() -> tuple[Check, ...]:
    """The checks, in the order in which a person would fix things."""
    from service.cli.doctor_checks import (
        check_daemon,
        check_data_folder,
        check_databases,
        check_notes,
        check_readers,
        check_sandbox,
        check_scripts,
        check_settings,
        check_token,
        check_tool_servers,
        check_tools,
    )
    from service.cli.model_checks import (
        check_embedder,
        check_model,
        check_vectors,
        check_web,
    )
    from service.cli.spend_check import check_spend

    return (
        Check("settings", check_settings),
        Check("data folder", check_data_folder),
        Check("databases", check_databases),
        Check("daemon", check_daemon),
        Check("token", check_token),
        Check("language model", check_model),
        Check("embedder", check_embedder),
        Check("vector index", check_vectors),
        Check("memory", check_readers),
        Check("web search", check_web),
        Check("tools", check_tools),
        Check("tool servers", check_tool_servers),
        Check("sandbox", check_sandbox),
        Check("scripts", check_scripts),
        Check("notes", check_notes),
        Check("spending", check_spend),
    )


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check settings, data folder, daemon, models and endpoint; say what to do.

    A configured endpoint is asked for a few words. Exit code 1 when something needed is broken.
    """
    from service.cli.terminal.output import aside, print_json
    from service.config import usable_settings

    settings = usable_settings()
    findings: list[tuple[Check, Finding]] = []
    for check in _all_checks():
        with aside().status(f"{check.name} …", spinner="dots", spinner_style="dim"):
            finding = check.look(settings)
        findings.append((check, finding))
        if not as_json:
            _print(check, finding)
    broken = [check.name for check, finding in findings if finding.verdict == "broken"]
    if as_json:
        print_json(
            {
                "ok": not broken,
                "checks": [
                    {
                        "name": check.name,
                        "verdict": finding.verdict,
                        "words": finding.words,
                        "advice": finding.advice,
                    }
                    for check, finding in findings
                ],
            }
        )
    elif broken:
        aside().print(f"\nBroken: {', '.join(broken)}.", style="bold red")
    raise SystemExit(1 if broken else 0)


def _print(check: Check, finding: Finding) -> None:
    from rich.table import Table
    from rich.text import Text

    from service.cli.terminal.output import out, plain

    row = Table.grid(padding=(0, 1))
    row.add_column(width=6)
    row.add_column(width=15)
    row.add_column(ratio=1)
    words = Text(plain(finding.words))
    if finding.advice:
        words.append(f"\n{plain(finding.advice)}", style="dim")
    mark, style = _MARKS[finding.verdict]
    row.add_row(Text(mark, style=style), Text(check.name, style="bold"), words)
    out().print(row)
